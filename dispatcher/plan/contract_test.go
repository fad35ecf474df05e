package plan_test

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

// orderContract is what an order must be like.
const orderContract = `{
  "type": "object", "required": ["email", "items"], "additionalProperties": false,
  "properties": {
    "email": {"type": "string", "format": "email"},
    "state": {"enum": ["open", "paid"]},
    "code": {"type": "string", "pattern": "^[A-Z]+$"},
    "items": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/item"}}
  },
  "$defs": {"item": {"type": "object", "required": ["qty"], "properties": {"qty": {"type": "integer", "minimum": 1}}}}
}`

func under(files map[string]string) plan.Options {
	o := options
	o.Read = func(file string) ([]byte, error) {
		if text, ok := files[file]; ok {
			return []byte(text), nil
		}
		return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
	}
	return o
}

func TestAnEventThatBreaksItsContractIsADeadLetterThatNamesThePlace(t *testing.T) {
	p, err := plan.Compile(plan.Rules{
		Contracts: map[string]string{"order.*": "order.json"},
	}, nil, under(map[string]string{"order.json": orderContract}))
	require.NoError(t, err)
	for name, c := range map[string]struct{ data, want string }{
		"as it says":                 {`{"email":"ann@example.com","items":[{"qty":1}]}`, ""},
		"a member that is not there": {`{"email":"ann@example.com"}`, "the payload lacks items"},
		"another type":               {`{"email":"ann@example.com","items":[{"qty":"two"}]}`, "/items/0/qty is of type string, want integer"},
		"another format":             {`{"email":"hunter2","items":[]}`, "/email is no email"},
		"another value":              {`{"email":"ann@example.com","items":[],"state":"hunter2"}`, "/state is none of the values that are allowed"},
		"another form":               {`{"email":"ann@example.com","items":[],"code":"hunter2"}`, "/code is not what the schema says by pattern"},
		"too small":                  {`{"email":"ann@example.com","items":[{"qty":0}]}`, "/items/0/qty is not what the schema says by minimum"},
		"a member too many":          {`{"email":"ann@example.com","items":[],"hunter2":1}`, "the payload has 1 members that are not allowed"},
		"several":                    {`{"email":7,"items":[{}]}`, "/email is of type number, want string; /items/0 lacks qty"},
		"no JSON":                    {`hunter2`, "the payload is no JSON"},
		"nothing":                    {``, "the payload is no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.Plan("key", placed(c.data))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, &plan.Error{Cause: event.CauseContractViolated, Detail: "the contract for order.* (order.json): " + c.want}, err)
			require.NotContains(t, err.Error(), "hunter2", "values stay where they are")
		})
	}
	t.Run("events of other types have none", func(t *testing.T) {
		e := placed(`7`)
		e.Type = "invoice.sent"
		_, err := p.Plan("key", e)
		require.NoError(t, err)
	})
}

func TestATenantMayHaveAnotherContract(t *testing.T) {
	p, err := plan.Compile(plan.Rules{
		Contracts: map[string]string{"order.placed": "strict.json"},
		Tenants:   map[string]plan.Overlay{"acme": {Contracts: map[string]string{"order.placed": "any.json"}}},
	}, nil, under(map[string]string{"strict.json": `{"type":"array"}`, "any.json": `true`}))
	require.NoError(t, err)
	e := placed(`{}`)
	_, err = p.Plan("key", e)
	require.ErrorContains(t, err, "the payload is of type object, want array")
	e.Tenant = "acme"
	_, err = p.Plan("key", e)
	require.NoError(t, err)
}

func TestContractsAreCheckedAtStart(t *testing.T) {
	for text, want := range map[string]string{
		`{"type": "objekt"}`:                      "it is no JSON Schema: ",
		`{`:                                       "it is no JSON: ",
		`{"$ref": "https://example.com/a.json"}`:  "it refers to https://example.com/a.json: put that into its own $defs, nothing is fetched",
		`{"$ref": "other.json"}`:                  "it refers to other.json: put that into its own $defs, nothing is fetched",
		`{"$ref": "file:///etc/passwd"}`:          "it refers to file:///etc/passwd: put that",
		`{"properties": {"a": {"pattern": "("}}}`: "it is no JSON Schema: ",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := plan.Compile(plan.Rules{Contracts: map[string]string{"order.*": "order.json"}}, nil, under(map[string]string{"order.json": text}))
			require.ErrorContains(t, err, "contracts.order.*: order.json: "+want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	_, err := plan.Compile(plan.Rules{Contracts: map[string]string{"order.**.x": "order.json", "a": "none.json"}}, nil, under(nil))
	require.EqualError(t, err, "contracts.a: none.json: file does not exist\ncontracts.order.**.x: ** stands only at the end")
}

func TestTheRevisionKnowsContracts(t *testing.T) {
	revision := func(text string) string {
		p, err := plan.Compile(plan.Rules{Contracts: map[string]string{"a": "a.json"}}, nil, under(map[string]string{"a.json": text}))
		require.NoError(t, err)
		return p.Revision()
	}
	require.NotEqual(t, revision(`true`), revision(`false`))
}

func FuzzContract(f *testing.F) {
	f.Add(orderContract, `{"email":"a@b.c"}`)
	f.Fuzz(func(t *testing.T, schema, data string) {
		p, err := plan.Compile(plan.Rules{Contracts: map[string]string{"**": "x"}}, nil, under(map[string]string{"x": schema}))
		if err != nil {
			return
		}
		_, err = p.Plan("key", placed(data))
		if err != nil {
			require.ErrorAs(t, err, new(*plan.Error), fmt.Sprint(err))
		}
	})
}
