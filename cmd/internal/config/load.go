package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"tidings/bridge"
)

// maxFile bounds what is read from a configuration file or a secret's file.
const maxFile = 4 << 20

// Load returns the defaults, changed by the file at path and then by the
// environment, which is a list of KEY=value as os.Environ returns it. An empty
// path means that there is no file. Nothing is validated yet, see
// [Config.Validate].
func Load(path string, environ []string) (Config, error) {
	c := Default()
	if path != "" {
		if err := c.loadFile(path); err != nil {
			return Config{}, err
		}
	}
	if err := c.loadEnv(environ); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (c *Config) loadFile(path string) error {
	data, err := readFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if err := c.decode(path, data); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	for _, file := range c.files() {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(dir, *file)
		}
	}
	c.placeContracts(dir)
	return c.readSecrets(path, dir)
}

// placeContracts makes the files of contracts relative to dir.
func (c *Config) placeContracts(dir string) {
	all := []map[string]string{c.Rules.Contracts}
	for _, tenant := range c.Tenants {
		if tenant != nil {
			all = append(all, tenant.Contracts)
		}
	}
	for _, files := range all {
		for of, file := range files {
			if file != "" && !filepath.IsAbs(file) {
				files[of] = filepath.Join(dir, file)
			}
		}
	}
}

// files returns what names a file or directory that is read while Tidings runs.
func (c *Config) files() []*string {
	files := []*string{&c.Templates, &c.NATS.TLS.CertFile, &c.NATS.TLS.KeyFile}
	tls := []*bridge.TLS{&c.AMQP.TLS}
	for i := range c.Sources {
		tls = append(tls, &c.Sources[i].TLS)
	}
	for _, t := range tls {
		files = append(files, &t.CAFile, &t.CertFile, &t.KeyFile)
	}
	for _, channel := range c.senders() {
		switch {
		case channel.Email != nil:
			files = append(files, &channel.Email.CAFile)
		case channel.Webhook != nil:
			files = append(files, &channel.Webhook.CAFile)
		}
	}
	return files
}

func (c *Config) decode(path string, data []byte) error {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return located(path, err)
	}
	documents := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool {
		return d.Body == nil || d.Body.Type() == ast.CommentType
	})
	switch len(documents) {
	case 0:
		return nil // only comments: the defaults stand
	case 1:
		if err := yaml.NodeToValue(documents[0].Body, c, yaml.Strict()); err != nil {
			return located(path, err)
		}
		if err := c.override(); err != nil {
			return located(path, err)
		}
		c.where = newPlaces(path, data, documents[0].Body)
		return nil
	}
	again := &yaml.SyntaxError{Message: "a second document begins here: a configuration is one", Token: documents[1].Body.GetToken()}
	return located(path, again)
}

// located returns [Problems] that say where in the file an error is. They leave out the
// excerpt of the file that the library offers, since a secret may stand on one of its lines.
func located(path string, err error) error {
	at, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return Problems{{Place: path, Message: err.Error()}}
	}
	position := path
	if token := at.GetToken(); token != nil && token.Position != nil {
		position = fmt.Sprintf("%s:%d:%d", path, token.Position.Line, token.Position.Column)
	}
	return Problems{{Place: position, Message: inWords(at)}}
}

func inWords(err yaml.Error) string {
	switch err := err.(type) {
	case *yaml.UnknownFieldError:
		name := err.GetToken().Value
		return fmt.Sprintf("unknown key %q%s", name, didYouMean(name, knownKeys()))
	case *yaml.DuplicateKeyError:
		return fmt.Sprintf("the key %q is here a second time", err.GetToken().Value)
	case *yaml.TypeError:
		return fmt.Sprintf("want %s here", kindInWords(err.DstType))
	case *yaml.UnexpectedNodeTypeError:
		return fmt.Sprintf("want %s here, not %s", nodeInWords(err.Expected), nodeInWords(err.Actual))
	case *yaml.OverflowError:
		return "the number is too large"
	}
	return err.GetMessage()
}

// readFile reads a file of bounded size.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes: at most %d are read", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}
