package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// secretFile is a secret that may stand in a file of its own.
type secretFile struct {
	key  string // of the secret; that of the file has _file behind it
	set  func(string)
	have bool // the secret stands here already
	path *string
}

func (c *Config) secretFiles() []secretFile {
	files := []secretFile{
		fileOf("api.token", &c.API.Token, &c.API.TokenFile),
		fileOf("amqp.url", &c.AMQP.URL, &c.AMQP.URLFile),
		fileOf("nats.url", &c.NATS.URL, &c.NATS.URLFile),
		fileOf("nats.follower_password", &c.NATS.FollowerPassword, &c.NATS.FollowerPasswordFile),
	}
	for i := range c.Sources {
		files = append(files, fileOf(sourceKey(i)+".url", &c.Sources[i].URL, &c.Sources[i].URLFile))
	}
	for key, channel := range c.senders() {
		files = append(files, channel.secrets(key+".")...)
	}
	return files
}

// secrets returns those of a channel, whose keys begin with key.
func (c *Channel) secrets(key string) []secretFile {
	switch {
	case c.Email != nil:
		return []secretFile{fileOf(key+"password", &c.Email.Password, &c.Email.PasswordFile)}
	case c.Webhook != nil:
		return []secretFile{fileOf(key+"secret", &c.Webhook.Secret, &c.Webhook.SecretFile)}
	}
	return nil
}

func fileOf[S ~string](key string, secret *S, path *string) secretFile {
	return secretFile{
		key: key, have: *secret != "", path: path,
		set: func(s string) { *secret = S(s) },
	}
}

// readSecrets reads the secrets that stand in files, and forgets the paths, so
// that the next layer can set another. source is the configuration file that
// named them, in which a secret must not stand too, and dir is what their
// paths are relative to; both are empty for the environment.
func (c *Config) readSecrets(source, dir string) error {
	var errs []error
	for _, f := range c.secretFiles() {
		if *f.path == "" {
			continue
		}
		if source != "" && f.have {
			errs = append(errs, fmt.Errorf("%s: %s and %s_file are both set: remove one", source, f.key, f.key))
			continue
		}
		secret, err := readSecret(dir, *f.path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s_file: %w", f.key, err))
			continue
		}
		f.set(secret)
		*f.path = ""
	}
	return errors.Join(errs...)
}

// readSecret returns the content of a file without the line end behind it.
func readSecret(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	data, err := readFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(data), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}
