package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
)

// TypeStructured is the content type of one event in the JSON format of
// CloudEvents, and TypeBatch that of a list of them.
const (
	TypeStructured = typeCloudEvents + "+json"
	TypeBatch      = typeCloudEvents + "-batch+json"
)

// ErrBatchTooLong means that a batch has more events than it may.
var ErrBatchTooLong = errors.New("the batch has too many events")

// IsBatch reports whether a content type is that of a batch, whatever its
// parameters.
func IsBatch(contentType string) bool { return mediaType(contentType) == TypeBatch }

// SplitBatch returns the elements of a batch as they are written, to be read one
// by one like the body of a structured event: whether they are events is not
// looked at. It returns [ErrBatchTooLong] if there are more than limit, and an
// error that says in words why the body is no batch, never with a piece of it.
func SplitBatch(body []byte, limit int) ([][]byte, error) {
	if !json.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '[' {
		return nil, errors.New("the content type is " + TypeBatch + " and the body is no JSON array")
	}
	var elements [][]byte
	list := json.NewDecoder(bytes.NewReader(body))
	_, err := list.Token() // the bracket
	for err == nil && list.More() {
		if len(elements) == limit {
			return nil, ErrBatchTooLong
		}
		var element json.RawMessage
		err = list.Decode(&element)
		elements = append(elements, element)
	}
	return elements, err
}
