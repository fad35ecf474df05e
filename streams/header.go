package streams

import "github.com/nats-io/nats.go"

// headers are the headers of a message in the making. Their values share one
// array, the map does not grow, and the size is known without another look.
type headers struct {
	nats.Header
	values []string
	size   int
}

// newHeaders returns headers that have room for n.
func newHeaders(n int) headers {
	return headers{Header: make(nats.Header, n), values: make([]string, 0, n), size: len("NATS/1.0\r\n\r\n")}
}

// add adds a header that was not there. value must be fit for one.
func (h *headers) add(name, value string) {
	n := len(h.values)
	h.values = append(h.values, value)
	h.Header[name] = h.values[n : n+1 : n+1]
	h.size += len(name) + len(": \r\n") + len(value)
}

// set adds a header that was not there, unless its value is empty.
func (h *headers) set(name, value string) {
	if value != "" {
		h.add(name, percentEncode(value, &plainInHeader))
	}
}

// What stays as it is in the name of an extension.
var plainInName = setOf(func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' })

// What stays as it is in the value of a header follows the protocol binding:
// printable ASCII but blank, quote and percent.
var plainInHeader = setOf(func(c byte) bool { return c > ' ' && c <= '~' && c != '"' && c != '%' })

// setHeader sets a header unless its value is empty.
func setHeader(h nats.Header, name, value string) {
	if value != "" {
		h[name] = []string{percentEncode(value, &plainInHeader)}
	}
}

func getHeader(h nats.Header, name string) string { return percentDecode(h.Get(name)) }

func headerSize(h nats.Header) int {
	n := len("NATS/1.0\r\n\r\n")
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(": \r\n") + len(v)
		}
	}
	return n
}
