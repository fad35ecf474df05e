package main

import (
	"slices"
	"strings"

	"tidings/cmd/internal/api"
)

// keysLast moves keys and message ids behind the flags where one of them begins
// with a hyphen, which one in 64 does: it would be taken for a flag.
func keysLast(args []string) []string {
	isKey := func(i int) bool {
		return api.Key(args[i]).Valid() && (i == 0 || args[i-1] != "--key")
	}
	var keys, others []string
	hyphen := false
	for i, arg := range args {
		switch {
		case arg == "--":
			return args // whoever writes that knows
		case isKey(i):
			keys, hyphen = append(keys, arg), hyphen || strings.HasPrefix(arg, "-")
		default:
			others = append(others, arg)
		}
	}
	if !hyphen {
		return args
	}
	return slices.Concat(others, []string{"--"}, keys)
}
