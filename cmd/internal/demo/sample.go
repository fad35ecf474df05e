package demo

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tidings/bridge"
	"tidings/streams/event"
)

// sample is one file of the example's events: what is published, and what must
// become of it.
type sample struct {
	Name       string            `json:"name"`
	Why        string            `json:"why"`
	Properties map[string]string `json:"properties"`
	Headers    json.RawMessage   `json:"headers"` // typed, as dead letters have them
	Body       json.RawMessage   `json:"body"`
	BodyText   string            `json:"body_text"`
	Repeat     int               `json:"repeat"`
	Expect     expectation       `json:"expect"`
}

// expectation is what must become of a sample. Without an outcome it must not
// become an event at all.
type expectation struct {
	Outcome    event.Outcome  `json:"outcome"`
	IDSource   event.IDSource `json:"id_source"`
	Messages   event.Counts   `json:"messages"`
	Tries      int            `json:"tries"`
	Duplicates int            `json:"duplicates"`
	DeadLetter event.Cause    `json:"dead_letter"`
	Unreached  int            `json:"unreached"` // of the tries: those that no receiver saw
}

// readSamples returns the samples in the order of their files' names.
func readSamples(files fs.FS) ([]sample, error) {
	names, err := fs.Glob(files, "events/*.json")
	if err != nil {
		return nil, err
	}
	samples := make([]sample, len(names))
	for i, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &samples[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return samples, nil
}

// publishing returns what is published for the sample now.
func (s sample) publishing(now time.Time) (amqp.Publishing, error) {
	d := event.Delivery{Properties: map[string]string{}, Headers: s.Headers}
	for k, v := range s.Properties {
		d.Properties[k] = v
	}
	if ago, relative := strings.CutPrefix(d.Properties["timestamp"], "-"); relative {
		before, err := time.ParseDuration(ago)
		if err != nil {
			return amqp.Publishing{}, fmt.Errorf("sample %q: timestamp: %w", s.Name, err)
		}
		d.Properties["timestamp"] = now.Add(-before).UTC().Format(time.RFC3339)
	}
	body := []byte(s.Body)
	if s.BodyText != "" {
		body = []byte(s.BodyText)
	}
	msg, err := bridge.Publishing(d, body)
	if err != nil {
		return amqp.Publishing{}, fmt.Errorf("sample %q: %w", s.Name, err)
	}
	msg.DeliveryMode = amqp.Persistent
	return msg, nil
}

// times returns how often the sample is published.
func (s sample) times() int { return max(1, s.Repeat) }

// correlation is what the ledger's row of the sample is found by: samples need not have an id.
func (s sample) correlation() string { return s.Properties["correlation_id"] }
