package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Change is a key by which two configurations differ.
type Change struct {
	Key string
	// Before and After are the values where they are short and no secret.
	Before, After string
	// Restart says that the process would have to start anew for it.
	Restart bool
}

// String says what is different, such as `api.listen: "a:1" is "b:2" now`.
func (c Change) String() string {
	if c.Before == c.After {
		return c.Key + " is another one now"
	}
	return fmt.Sprintf("%s: %s is %s now", c.Key, c.Before, c.After)
}

// live reports whether a key at the top of the file can change while Tidings runs.
// Everything else wants a restart.
func live(key string) bool {
	return slices.Contains([]string{
		"staleness", "accept_duplicates_after_horizon", "policy", "channels", "tenants", "tenant_limits", "suppressions", "templates",
		"default_locale", "timezone", "vars", "groups", "contracts", "routes",
	}, key)
}

// Changes returns the keys by which after differs from before, sorted. That a file has
// other contents by now, such as a template, is none.
func Changes(before, after Config) []Change {
	var changes []Change
	different("", reflect.ValueOf(before), reflect.ValueOf(after), &changes)
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	return changes
}

// different adds the keys below prefix by which two structs differ.
func different(prefix string, before, after reflect.Value, changes *[]Change) {
	for i := range before.NumField() {
		f := before.Type().Field(i)
		name, inline := yamlName(f)
		a, b := before.Field(i), after.Field(i)
		switch {
		case !f.IsExported() || same(a, b):
		case inline:
			different(prefix, a, b, changes)
		case f.Type.Kind() == reflect.Struct && !f.Type.Implements(reflect.TypeFor[fmt.Stringer]()):
			different(prefix+name+".", a, b, changes)
		case f.Type.Kind() == reflect.Map:
			for _, of := range members(a, b) {
				if x, y := a.MapIndex(of), b.MapIndex(of); !x.IsValid() || !y.IsValid() || !same(x, y) {
					*changes = append(*changes, change(prefix+name+"."+of.String(), reflect.Value{}, reflect.Value{}))
				}
			}
		default:
			*changes = append(*changes, change(prefix+name, a, b))
		}
	}
}

func change(key string, before, after reflect.Value) Change {
	top, _, _ := strings.Cut(key, ".")
	c := Change{Key: key, Restart: !live(top)}
	if c.Restart && before.IsValid() && before.Kind() != reflect.Struct {
		c.Before, c.After = shown(before), shown(after)
	}
	return c
}

// shown returns a value as it stands in a file, without what is secret.
func shown(v reflect.Value) string {
	text, err := yaml.MarshalWithOptions(v.Interface(), yaml.Flow(true))
	if err != nil || len(text) > 200 {
		return "another"
	}
	return strings.TrimSpace(string(text))
}

// members returns the keys of two maps of texts, sorted.
func members(a, b reflect.Value) []reflect.Value {
	all := map[string]reflect.Value{}
	for _, m := range []reflect.Value{a, b} {
		for _, key := range m.MapKeys() {
			all[key.String()] = key
		}
	}
	keys := make([]reflect.Value, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		keys = append(keys, all[name])
	}
	return keys
}

// same reports whether two values say the same. How they came to be, which is in fields
// that are not exported, does not count; an empty list and none are two things.
func same(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() {
		return a.IsValid() == b.IsValid() && !a.IsValid()
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		return a.IsNil() == b.IsNil() && (a.IsNil() || same(a.Elem(), b.Elem()))
	case reflect.Struct:
		for i := range a.NumField() {
			if a.Type().Field(i).IsExported() && !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for _, key := range a.MapKeys() {
			if other := b.MapIndex(key); !other.IsValid() || !same(a.MapIndex(key), other) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// SameSender reports whether one sender serves both sections of a channel: how often
// messages are tried, and by whom else, makes no difference to it.
func (c *Channel) SameSender(other *Channel) bool {
	return same(reflect.ValueOf(c.senderOnly()), reflect.ValueOf(other.senderOnly()))
}

func (c *Channel) senderOnly() Channel {
	only := *c
	only.Providers, only.Tuning = nil, Tuning{Timeout: c.Tuning.Timeout}
	return only
}

// FilesDigest returns a digest of what the files hold that the section names, such as
// ca_file: a sender reads them once.
func (c *Channel) FilesDigest() string {
	sum := sha256.New()
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if section := v.Field(i); section.Kind() == reflect.Pointer && !section.IsNil() {
			eachFile(section.Elem(), func(path string) {
				content, err := readFile(path)
				fmt.Fprintf(sum, "%q %v %d\n", path, err, len(content))
				sum.Write(content)
			})
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// eachFile calls use with every file that a struct names.
func eachFile(v reflect.Value, use func(path string)) {
	for i := range v.NumField() {
		f := v.Field(i)
		switch name, _ := yamlName(v.Type().Field(i)); {
		case f.Kind() == reflect.Struct && v.Type().Field(i).IsExported():
			eachFile(f, use)
		case f.Kind() == reflect.String && strings.HasSuffix(name, "_file") && f.String() != "":
			use(f.String())
		}
	}
}
