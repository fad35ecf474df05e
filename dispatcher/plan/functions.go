package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/number"
)

// functionError is an error of a function below. It holds no value.
type functionError struct{ text string }

func (e *functionError) Error() string { return e.text }

func wrong(format string, args ...any) error { return &functionError{fmt.Sprintf(format, args...)} }

// functions are what templates can call besides what is built in. The
// comparisons replace those that are built in, which refuse to compare 5 with
// 5.5 and so would fail by what a producer happens to send. So does index, which
// prints "<no value>" for what is not there.
func functions(tag language.Tag, z *zones) map[string]any {
	f := map[string]any{
		"date":     date,
		"in":       func(zone string, value any) (time.Time, error) { return z.in(zone, value) },
		"local":    func(zone string, value any) (string, error) { return z.local(zone, value) },
		"money":    func(amount any, code string) (string, error) { return money(tag, amount, code) },
		"default":  fallback,
		"get":      get,
		"index":    index,
		"join":     join,
		"json":     toJSON,
		"lower":    strings.ToLower,
		escapeName: markdownText,
		"number":   func(value any, decimals int) (string, error) { return formatNumber(tag, value, decimals) },
		"upper":    strings.ToUpper,
	}
	maps.Copy(f, comparisons())
	return f
}

// date formats a time, or a text in the form of RFC 3339, by a layout of Go.
func date(layout string, value any) (string, error) {
	t, err := instant("date", value)
	if err != nil {
		return "", err
	}
	return t.Format(layout), nil
}

// instant reads a time, or a text in the form of RFC 3339.
func instant(function string, value any) (time.Time, error) {
	switch value := value.(type) {
	case time.Time:
		return value, nil
	case string:
		if value == "" {
			return time.Time{}, wrong("%s: no time is given", function)
		}
		if t, err := time.Parse(time.RFC3339, value); err == nil {
			return t, nil
		}
	}
	return time.Time{}, wrong("%s: want a time such as 2030-01-31T12:00:00Z", function)
}

// fallback returns value unless it is empty, as in {{get .data "name" | default "customer"}}.
func fallback(instead, value any) any {
	if v := reflect.ValueOf(value); !v.IsValid() || v.IsZero() {
		return instead
	}
	return value
}

// get returns the member at a path such as customer.address.0.city, or an empty
// text where there is none.
func get(from any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch of := from.(type) {
		case map[string]any:
			from = of[name]
		case map[string]string:
			from = of[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(of) {
				return ""
			}
			from = of[i]
		default:
			return ""
		}
	}
	if from == nil {
		return ""
	}
	return from
}

// index returns an element, and an error where there is none.
func index(from any, keys ...any) (any, error) {
	for _, key := range keys {
		found, err := element(from, key)
		if err != nil {
			return nil, wrong("index: %v", err)
		}
		if found == nil {
			return nil, wrong("index: there is no such element")
		}
		from = found
	}
	return from, nil
}

// join puts the elements of a list in one text.
func join(separator string, values []any) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = fmt.Sprint(value)
	}
	return strings.Join(texts, separator)
}

// toJSON returns a value as JSON.
func toJSON(value any) (string, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "", wrong("json: the value has no JSON form")
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// formatNumber writes a number, or a text that is one, as people who speak the
// file's language do.
func formatNumber(tag language.Tag, value any, decimals int) (string, error) {
	f, ok := amountOf(value)
	if !ok || decimals < 0 || decimals > 20 {
		return "", wrong("number: want a number and 0 to 20 decimals")
	}
	return message.NewPrinter(tag).Sprint(number.Decimal(f, number.Scale(decimals))), nil
}

// amountOf returns a number, or what a text says that is one.
func amountOf(value any) (float64, bool) {
	s, isText := value.(string)
	if !isText {
		return numeric(value)
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

func numeric(value any) (float64, bool) {
	v := reflect.ValueOf(value)
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}

func comparisons() map[string]any {
	by := func(name string, holds func(order int) bool) func(a, b any) (bool, error) {
		return func(a, b any) (bool, error) {
			order, err := compare(name, a, b)
			return err == nil && holds(order), err
		}
	}
	return map[string]any{
		"lt": by("lt", func(order int) bool { return order < 0 }),
		"le": by("le", func(order int) bool { return order <= 0 }),
		"gt": by("gt", func(order int) bool { return order > 0 }),
		"ge": by("ge", func(order int) bool { return order >= 0 }),
		"eq": func(a any, others ...any) bool {
			return slices.ContainsFunc(others, func(b any) bool { return equal(a, b) })
		},
		"ne": func(a, b any) bool { return !equal(a, b) },
	}
}

// compare orders two numbers, two texts or two times.
func compare(name string, a, b any) (int, error) {
	if order, ok := compareNumbers(a, b); ok {
		return order, nil
	}
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), nil
		}
	case time.Time:
		if b, ok := b.(time.Time); ok {
			return a.Compare(b), nil
		}
	}
	return 0, wrong("%s: want two numbers, two texts or two times", name)
}

func compareNumbers(a, b any) (order int, ok bool) {
	x, isNumber := numeric(a)
	y, areNumbers := numeric(b)
	switch {
	case !isNumber || !areNumbers:
		return 0, false
	case x < y:
		return -1, true
	case x > y:
		return 1, true
	}
	return 0, true
}

// equal reports whether two values are the same; values of different types are not.
func equal(a, b any) bool {
	if order, ok := compareNumbers(a, b); ok {
		return order == 0
	}
	return reflect.DeepEqual(a, b)
}
