package event

// TestSource is the source of tests that an operator dispatches. It is reserved:
// what comes from anybody else under it is refused at the door, so an event of
// this source is a test, and no other event is one.
const TestSource = "tidings:test"

// The extensions of a test say where it goes. They mean nothing in other events.
const (
	ExtensionTestTo      = "tidingstestto"      // the one address that gets every message
	ExtensionTestChannel = "tidingstestchannel" // only routes on this channel; all if absent
	ExtensionTestRoute   = "tidingstestroute"   // only this route, whatever its condition says; all if absent
)

// IsTest reports whether the event is an operator's test.
func (e Envelope) IsTest() bool { return e.Source == TestSource }

// IsTest reports whether the history is that of an operator's test.
func (r Ref) IsTest() bool { return r.Source == TestSource }

// TestKey returns the key of the test with an id. It is the same whatever makes
// two events of producers the same one.
func TestKey(tenant, id string) Key { return Identity{}.KeyOf(tenant, TestSource, id) }
