package config

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Prefix begins the name of every variable of Tidings.
const Prefix = "TIDINGS_"

// elsewhere are the variables that begin with [Prefix] and are not keys of the
// configuration: those of the command line, and those that Kubernetes sets in
// every pod beside a service named tidings.
func elsewhere(name string) bool {
	switch name {
	case "TIDINGS_CONFIG", "TIDINGS_URL", "TIDINGS_TOKEN", "TIDINGS_TOKEN_FILE", "TIDINGS_OPERATOR", "TIDINGS_PORT":
		return true
	}
	return strings.HasPrefix(name, "TIDINGS_SERVICE_") || strings.HasPrefix(name, "TIDINGS_PORT_")
}

// aliases are the variables that other tools read too, and the keys they set.
// The variable of Tidings' own name wins.
func aliases() map[string]string {
	return map[string]string{
		"AMQP_URL": "TIDINGS_AMQP_URL", "AMQP_URL_FILE": "TIDINGS_AMQP_URL_FILE",
		"NATS_URL": "TIDINGS_NATS_URL", "NATS_URL_FILE": "TIDINGS_NATS_URL_FILE",
	}
}

func (c *Config) loadEnv(environ []string) error {
	vars := ownVariables(environ)
	leaves := c.leaves()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		leaf, known := leaves[name]
		switch {
		case !known:
			errs = append(errs, fmt.Errorf("unknown variable %s%s", name,
				didYouMean(name, slices.Sorted(maps.Keys(leaves)))))
			continue
		case leaf.other != "":
			errs = append(errs, fmt.Errorf("%s may be %s or %s: set the one you mean in the file", name, leaf.other, leaf.key))
			continue
		}
		if _, both := vars[name+"_FILE"]; both {
			errs = append(errs, fmt.Errorf("%s and %s_FILE are both set: unset one", name, name))
		}
		if err := leaves.set(name, vars[name]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		c.setBy(leaf.key, name)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return c.readSecrets("", "")
}

// Override sets a single-valued key, such as amqp.url, to what a flag says. An
// empty text leaves it as it is. It panics if there is no such key, or if it
// does not hold a text.
func (c *Config) Override(key, text string) {
	if text == "" {
		return
	}
	c.leaves()[Prefix+variable(key)].value.SetString(text)
	c.setBy(key, "flag")
}

// setBy notes that a key has its value not from the file.
func (c *Config) setBy(key, what string) {
	c.where.forget(key)
	set := maps.Clone(c.set)
	if set == nil {
		set = map[string]string{}
	}
	delete(set, strings.TrimSuffix(key, "_file"))
	set[key] = what
	c.set = set
}

// ownVariables returns the variables that set keys, under their own names. An
// empty value counts as not set, because that is how compose files pass on what
// nobody set.
func ownVariables(environ []string) map[string]string {
	vars := map[string]string{}
	other := aliases()
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" {
			continue
		}
		if strings.HasPrefix(name, Prefix) && !elsewhere(name) {
			vars[name] = value
		}
	}
	own := maps.Clone(vars)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		key, ok := other[name]
		if !ok || value == "" || own[strings.TrimSuffix(key, "_FILE")] != "" || own[strings.TrimSuffix(key, "_FILE")+"_FILE"] != "" {
			continue
		}
		vars[key] = value
	}
	return vars
}

// leaf is a value that a variable sets.
type leaf struct {
	value reflect.Value
	key   string   // such as api.listen
	other string   // another key with this variable, if there is one
	heirs []string // variables of what has the value too, because it gives none of its own
}

// leaves are the settable values by the name of their variable.
type leaves map[string]leaf

// set sets the value of a variable, and that of all who inherit it. Variables of their
// own come later, in the order of names.
func (all leaves) set(name, text string) error {
	err := setLeaf(all[name].value, text)
	for _, heir := range all[name].heirs {
		if err == nil {
			err = all.set(heir, text)
		}
	}
	return err
}

// leaves returns the settable values of c. Those of a channel and of a source are
// settable once the file has named it.
func (c *Config) leaves() leaves {
	all := leaves{}
	all.collect(Prefix, "", reflect.ValueOf(c).Elem())
	c.collectSenders(all)
	for i := range c.Sources {
		s := &c.Sources[i]
		all.collect(Prefix+"SOURCES_"+variable(s.Name)+"_", sourceKey(i)+".", reflect.ValueOf(&s.AMQP).Elem())
	}
	return all
}

// collectSenders adds what can be set in channels and in those that override them.
func (c *Config) collectSenders(all leaves) {
	for _, name := range slices.Sorted(maps.Keys(c.Channels)) {
		channel := c.Channels[name]
		if channel == nil {
			continue
		}
		prefix := Prefix + "CHANNELS_" + variable(name) + "_"
		channel.collect(all, prefix, "channels."+name+".")
		for key, o := range channel.overrides("channels." + name) {
			o.collect(all, prefix+"PROVIDERS_"+variable(o.Name)+"_", key+".", prefix)
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(c.Tenants)) {
		if c.Tenants[tenant] == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.Tenants[tenant].Channels)) {
			o, base := c.Tenants[tenant].Channels[name], Prefix+"CHANNELS_"+variable(name)+"_"
			if o == nil || o.Channel.Kind == "" {
				continue
			}
			prefix, key := Prefix+"TENANTS_"+variable(tenant)+"_CHANNELS_"+variable(name)+"_", "tenants."+tenant+".channels."+name
			o.collect(all, prefix, key+".", base)
			for key, p := range o.Channel.overrides(key) {
				p.collect(all, prefix+"PROVIDERS_"+variable(p.Name)+"_", key+".", prefix)
			}
		}
	}
}

// collect adds what can be set here, and has it inherit the values of the variables
// that begin with from where it gives none.
func (o *Override) collect(all leaves, prefix, key, from string) {
	own := leaves{}
	o.Channel.collect(own, prefix, key)
	for name, l := range own {
		if other, ok := all[name]; ok {
			l.other = other.key
		}
		all[name] = l
		above := from + strings.TrimPrefix(name, prefix)
		if base, ok := all[above]; ok && !o.gives(strings.TrimPrefix(l.key, key)) {
			base.heirs = append(base.heirs, name)
			all[above] = base
		}
	}
}

// variable returns the part of a variable's name for a key.
func variable(key string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key)
}

// collect adds what can be set in the struct v, whose keys begin with key.
func (all leaves) collect(prefix, key string, v reflect.Value) {
	for i := range v.NumField() {
		name, inline := yamlName(v.Type().Field(i))
		field := v.Field(i)
		switch {
		case inline:
			all.collect(prefix, key, field)
		case field.Kind() == reflect.Struct:
			all.collect(prefix+variable(name)+"_", key+name+".", field)
		case settable(field):
			name, key := prefix+variable(name), key+name
			all[name] = leaf{value: field, key: key, other: all[name].key}
		}
	}
}

func yamlName(f reflect.StructField) (name string, inline bool) {
	name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name, strings.Contains(options, "inline")
}

func settable(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice:
		return settable(reflect.New(v.Type().Elem()).Elem())
	case reflect.Struct, reflect.Map, reflect.Pointer, reflect.Interface, reflect.Func:
		return false
	default:
		return true
	}
}

// setLeaf sets v from text. A list is separated by commas. Its errors do not
// quote the text where it may be a secret.
func setLeaf(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		v.SetFloat(f)
	case reflect.Slice:
		return setList(v, strings.Split(text, ","))
	default:
		return errors.New("cannot be set by a variable: set it in the file")
	}
	return nil
}

func setList(v reflect.Value, parts []string) error {
	list := reflect.MakeSlice(v.Type(), len(parts), len(parts))
	for i, part := range parts {
		if err := setLeaf(list.Index(i), strings.TrimSpace(part)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}
