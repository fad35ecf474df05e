package config

import (
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
)

// Print writes the configuration in force as YAML, without its secrets.
func (c Config) Print(w io.Writer) error {
	if err := yaml.NewEncoder(w, yaml.IndentSequence(true)).Encode(c); err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	return nil
}
