// Package webhook sends messages as HTTP POST requests that are signed by the
// Standard Webhooks scheme.
//
// # What to believe
//
//   - One Send is at most one request on the wire. Nothing is sent again by the
//     HTTP client, redirects are not followed, and HTTP/2, whose client repeats
//     refused streams, is not spoken.
//   - The result is delivered only for an answer of 2xx. 408, 425, 429 and 5xx are
//     transient, with the time of Retry-After as the earliest next try; 429 with a
//     Retry-After is a rate limit. Everything else that was answered is permanent,
//     3xx included.
//   - Without an answer the result is transient if the request was certainly not
//     written in full, and unknown otherwise. A connection that was kept open and
//     that the receiver closed while a request was on its way gives unknown; to
//     make that rare, connections are kept for [IdleTimeout] only, which is less
//     than what common servers allow.
//   - A receiver whose certificate is not valid is transient: certificates are
//     repaired, and nothing was sent.
//   - Addresses of the own machine and of private networks are refused where the
//     connection is made, on the address that the name resolved to, so a name that
//     changes its mind gets nowhere. That needs no second look-up.
//   - The proxy settings of the environment are ignored.
//
// Every try is signed anew, with its own timestamp and the same webhook-id.
package webhook
