// Package shop holds the example of a small web shop, for the demo: its
// configuration, templates and sample events. The README beside it says what
// they show and what their files look like.
package shop

import "embed"

// Files is the folder as it stands beside this file: tidings.yaml,
// webhook.secret, templates and events.
//
//go:embed tidings.yaml webhook.secret all:templates events
var Files embed.FS
