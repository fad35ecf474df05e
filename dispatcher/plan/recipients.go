package plan

import (
	"fmt"
	"reflect"
	"strings"

	"tidings/streams/event"
)

// target is one recipient as a route's expression yielded it.
type target struct {
	address          string         // in the form that is used, see Kind.address
	locale, timezone string         // as named, or empty
	object           map[string]any // what templates see as .recipient
}

// targets reads the value of a recipients expression, in its order, each
// address once. invalid counts what is no address for this kind of channel.
// More than limit are not read.
func (k Kind) targets(value any, limit int) (found []target, invalid int, err error) {
	seen := map[string]bool{}
	err = eachRecipient(value, func(address string, object map[string]any) bool {
		if strings.TrimSpace(address) == "" {
			return true
		}
		usable, ok := k.address(address)
		if !ok {
			invalid++
			return true
		}
		if same := event.NormalizeAddress(usable); !seen[same] {
			seen[same] = true
			found = append(found, newTarget(usable, object))
		}
		return len(found) <= limit
	})
	return found, invalid, err
}

func newTarget(address string, object map[string]any) target {
	seen, _ := forTemplates(object).(map[string]any)
	seen["address"] = address
	t := target{address: address, object: seen}
	t.locale, _ = object["locale"].(string)
	t.timezone, _ = object["timezone"].(string)
	return t
}

// typeError is a value of a type that cannot name a recipient.
type typeError struct{ value any }

func (e *typeError) Error() string {
	return "yields " + inWords(reflect.ValueOf(e.value).Kind())
}

// eachRecipient calls yield for every recipient in value, with an empty address
// where there is none, until it returns false.
func eachRecipient(value any, yield func(address string, object map[string]any) bool) error {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			address, object, err := recipient(one)
			if err != nil {
				return fmt.Errorf("a list with an element that %w", err)
			}
			if !yield(address, object) {
				break
			}
		}
		return nil
	case []string:
		for _, one := range value {
			if !yield(one, nil) {
				break
			}
		}
		return nil
	}
	address, object, err := recipient(value)
	if err == nil {
		yield(address, object)
	}
	return err
}

// elements returns a value of recipients as a list.
func elements(value any) []any {
	switch value := value.(type) {
	case []any:
		return value
	case []string:
		list := make([]any, len(value))
		for i, one := range value {
			list[i] = one
		}
		return list
	}
	return []any{value}
}

func recipient(value any) (address string, object map[string]any, err error) {
	switch value := value.(type) {
	case nil:
		return "", nil, nil
	case string:
		return value, nil, nil
	case map[string]any:
		switch address := value["address"].(type) {
		case nil:
			return "", value, nil
		case string:
			return address, value, nil
		default:
			return "", nil, &typeError{address}
		}
	}
	return "", nil, &typeError{value}
}
