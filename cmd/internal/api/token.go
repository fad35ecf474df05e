package api

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// TokenFile is the name of the file in the data directory that holds the token.
const TokenFile = "api.token"

// EnsureToken returns the token kept in dir, which the process that serves the
// API may write to: 256 random bits, made at the first start and readable by
// the owner alone. dir must exist.
func EnsureToken(dir string) (string, error) {
	token, err := ReadToken(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	token = base64.RawURLEncoding.EncodeToString(b[:])
	if err := writeToken(filepath.Join(dir, TokenFile), token); err != nil {
		return "", fmt.Errorf("keep the API's token: %w", err)
	}
	return token, nil
}

// ReadToken returns the token kept in dir. The error is fs.ErrNotExist if there
// is none.
func ReadToken(dir string) (string, error) {
	path := filepath.Join(dir, TokenFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the API's token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < 32 {
		return "", fmt.Errorf("%s holds no token: delete it, and the next start makes one", path)
	}
	return token, nil
}

// writeToken writes beside path first, so that nobody ever reads half a token.
func writeToken(path, token string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), TokenFile+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
