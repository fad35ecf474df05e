package api

import (
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// describeGuards completes the description with what holds for every endpoint, because it
// stands around all of them and not in any one.
func describeGuards(spec *huma.OpenAPI) {
	spec.Info.Description = about
	spec.Info.License = &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"}
	spec.Servers = []*huma.Server{{URL: "/"}}
	for _, t := range tags() {
		spec.Tags = append(spec.Tags, &huma.Tag{Name: t[0], Description: t[1]})
	}
	spec.Components.Responses = map[string]*huma.Response{
		"Unauthorized": problemResponse(spec, "The token is missing, or another"),
		"CrossOrigin":  problemResponse(spec, "A page of another origin asked"),
		"TooLarge":     problemResponse(spec, "The body is too large"),
		"Unchanged":    {Description: "It is as If-None-Match says"},
	}
	spec.Components.Parameters = map[string]*huma.Param{
		"IfNoneMatch": {
			Name: "If-None-Match", In: "header", Schema: &huma.Schema{Type: "string"},
			Description: "ETags of what is known already: 304 if it is still so",
		},
	}
	asked, answered := schemas{of: spec.Components.Schemas}, schemas{of: spec.Components.Schemas}
	for _, item := range spec.Paths {
		for _, o := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if o == nil {
				continue
			}
			describeOperation(o)
			if o.RequestBody != nil {
				asked.add(o.RequestBody.Content)
			}
			for _, r := range o.Responses {
				answered.add(r.Content)
			}
		}
	}
	answered.leaveOpen(asked)
}

// schemas are schemas with all that they are made of.
type schemas struct {
	of   huma.Registry
	seen map[*huma.Schema]bool
}

func (s *schemas) add(content map[string]*huma.MediaType) {
	for _, media := range content {
		s.walk(media.Schema)
	}
}

func (s *schemas) walk(schema *huma.Schema) {
	if schema == nil || s.seen[schema] {
		return
	}
	if s.seen == nil {
		s.seen = map[*huma.Schema]bool{}
	}
	s.seen[schema] = true
	if schema.Ref != "" {
		s.walk(s.of.SchemaFromRef(schema.Ref))
	}
	more, _ := schema.AdditionalProperties.(*huma.Schema)
	parts := slices.Concat(slices.Collect(maps.Values(schema.Properties)), schema.OneOf, schema.AnyOf, schema.AllOf, []*huma.Schema{schema.Items, more})
	for _, part := range parts {
		s.walk(part)
	}
}

// leaveOpen lets the schemas have other members than those described, but for those
// by which requests are checked: members are added to answers in time, and a client
// made from the description must not refuse them.
func (s *schemas) leaveOpen(asked schemas) {
	for schema := range s.seen {
		if closed, ok := schema.AdditionalProperties.(bool); ok && !closed && !asked.seen[schema] {
			schema.AdditionalProperties = nil
		}
	}
}

// about is what the description begins with.
const about = `Every request but those marked as open carries the header Authorization: Bearer with the API's token, which is in api.token in the data directory unless one is configured.

Errors are application/problem+json (RFC 9457). Their type is urn:tidings: and a stable name. A path that is nobody's is 404 urn:tidings:no-endpoint, and another method than those of a path is 405 urn:tidings:method with the header Allow. A query parameter that is not known is refused.

Lists are pages: next is the cursor of the page that follows, and missing after the last. A page may have fewer items than were asked for and a next all the same.

Every answer in JSON to a GET has an ETag. Members are added to answers in time: pass over those that you do not know.`

// tags returns the groups of endpoints in the order of an event's life.
func tags() [][2]string {
	return [][2]string{
		{"events", "What came in, and what became of it: the ledger, which may lag behind the log by a moment."},
		{"tests", "Trying rules and templates out on one address."},
		{"dead letters", "What needs an operator, and what an operator does about it."},
		{"replays", "Dead letters requeued in bulk, at a rate, with a canary."},
		{"records", "Everything that is decided and done, as it happens."},
		{"export", "The whole log as a file."},
		{"ledger", "The projection that the answers come from."},
		{"status", "How the process is doing."},
	}
}

// describeOperation adds the answers of the guards. They are added to those that the
// operation names itself, and never in their place.
func describeOperation(o *huma.Operation) {
	answers := map[string]string{}
	if o.Security == nil { // that of the whole description
		answers["401"] = "Unauthorized"
	}
	if o.Method != http.MethodGet {
		answers["403"] = "CrossOrigin"
	}
	if o.RequestBody != nil {
		answers["413"] = "TooLarge"
	}
	if ok := o.Responses["200"]; o.Method == http.MethodGet && ok != nil && slices.ContainsFunc(slices.Collect(maps.Keys(ok.Content)), inJSON) {
		o.Parameters = append(o.Parameters, &huma.Param{Ref: "#/components/parameters/IfNoneMatch"})
		answers["304"] = "Unchanged"
		if ok.Headers == nil {
			ok.Headers = map[string]*huma.Param{}
		}
		if ok.Headers["ETag"] == nil {
			ok.Headers["ETag"] = &huma.Param{Description: "names the answer as it is", Schema: &huma.Schema{Type: "string"}}
		}
	}
	for status, name := range answers {
		if o.Responses[status] == nil {
			o.Responses[status] = &huma.Response{Ref: "#/components/responses/" + name}
		}
	}
}
