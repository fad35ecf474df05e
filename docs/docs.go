// Package docs holds what of the documents the binary shows.
package docs

import _ "embed" // for ConfigSchema

// ConfigSchema is the JSON Schema of the configuration file.
//
//go:embed config.schema.json
var ConfigSchema string
