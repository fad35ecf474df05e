package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// A cursor is base64url of a hash of the query it belongs to and the bound at
// which the next page begins.
const cursorHash = 6

func queryHash(query any) []byte {
	data, _ := json.Marshal(query) // strings and times: cannot fail
	sum := sha256.Sum256(fmt.Appendf(nil, "%T %s", query, data))
	return sum[:cursorHash]
}

func encodeCursor(query any, bound []byte) string {
	if bound == nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(queryHash(query), bound...))
}

// decodeCursor returns the bound in a cursor of the same query.
func decodeCursor(query any, cursor string) ([]byte, error) {
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(data) < cursorHash || string(data[:cursorHash]) != string(queryHash(query)) {
		return nil, ErrCursor
	}
	return data[cursorHash:], nil
}
