package event_test

import (
	"flag"
	"fmt"
	"time"

	"tidings/streams/event"
)

var update = flag.Bool("update", false, "rewrite golden files, schemas and the example in docs/records.md")

// t0 is when the events of these tests come in; at is so many seconds later.
var t0 = time.Date(2026, 3, 14, 9, 26, 53, 589_000_000, time.UTC)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

var (
	ownerA = event.Owner{Instance: "prod-1", Boot: "kPq0y4c1Tn2n5mJpX8rQvA"}
	ownerB = event.Owner{Instance: "prod-2", Boot: "W3tV9xZb7QeLd1sHf6uYjg"}
)

var orderKey = event.Identity{}.Key(event.Envelope{Tenant: "acme", Source: "/shop", ID: "order-1042"})

func orderRef() event.Ref {
	return event.Ref{
		Key: orderKey, Tenant: "acme", Source: "/shop", ID: "order-1042", IDSource: event.IDCloudEvents,
		Type: "order.confirmed", CorrelationID: "checkout-77", OccurredAt: at(-2), ReceivedAt: t0,
		Sequence: 4711, Digest: event.Digest([]byte(`{"total":99}`)),
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
}

// planned returns what a plan fixes about the message id.
func planned(id string, policy event.OnUnknown) event.PlannedMessage {
	channel := map[event.OnUnknown]string{event.Hold: "email", event.Resend: "webhook"}[policy]
	return event.PlannedMessage{
		ID: id, Route: "orders", Channel: channel, Template: "order", Version: "Xw1", Locale: "de",
		Recipient: event.NewRecipient([]byte("test secret"), id+"@example.org"), OnUnknown: policy,
	}
}

// plan plans the messages m1, m2, … with the policies.
func plan(policies ...event.OnUnknown) event.Planned {
	p := event.Planned{Config: "c1"}
	for i, policy := range policies {
		p.Messages = append(p.Messages, planned(fmt.Sprintf("m%d", i+1), policy))
	}
	return p
}

func tried(message string, result event.TryResult) event.Tried {
	return event.Tried{Message: message, Try: 1, Started: at(10), Ended: at(11), Result: result, Code: "code_" + string(result)}
}

func triedInRound(round int, message string, result event.TryResult) event.Tried {
	f := tried(message, result)
	f.Round = round
	return f
}

func claimed(o event.Owner, messages ...string) event.Claimed {
	return event.Claimed{Owner: o, LeaseMS: 60_000, Limit: 64, Config: "c1", Messages: messages}
}

func gaveUp(message, reason string) event.GaveUp {
	return event.GaveUp{Message: message, Reason: reason}
}

func crashed(claim string) event.Crashed {
	return event.Crashed{Claim: claim, Owner: ownerA, Reason: "owner_gone"}
}

func waiting(round int, due time.Time, reason event.WaitReason) event.Waiting {
	return event.Waiting{Round: round, Due: due, Reason: reason}
}

// change is the facts of one record. The records of a history have the ids
// r1, r2, … and are a minute apart.
type change []event.Fact

func history(changes ...change) event.State {
	return continued(event.State{}, changes...)
}

func continued(s event.State, changes ...change) event.State {
	for _, facts := range changes {
		n := s.Revision + 1
		s = s.Apply(fmt.Sprintf("r%d", n), at(60*n), facts...)
	}
	return s
}
