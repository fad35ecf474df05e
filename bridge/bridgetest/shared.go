package bridgetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TB is the part of testing.TB used here. It is an interface of our own so that a program that
// starts a node does not carry the testing package.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Tests is the part of testing.M used here.
type Tests interface{ Run() int }

// shared are the nodes of a test binary. They are state of the package because tests of one binary
// have nothing else in common; only Main opens it and only its Run closes it.
var shared struct {
	sync.Mutex
	open           bool
	given, private startedNode
}

type startedNode struct {
	node *Node
	err  error
}

// Main allows tests to call [New] and [Private], and stops the nodes when all tests have run:
//
//	func TestMain(m *testing.M) { os.Exit(bridgetest.Main(m).Run()) }
//
// It fits where a testing.M is expected, as in goleak.VerifyTestMain(bridgetest.Main(m)).
func Main(m Tests) Tests { return mainTests{m} }

type mainTests struct{ Tests }

func (m mainTests) Run() int {
	setOpen(true)
	defer setOpen(false)
	return m.Tests.Run()
}

func setOpen(open bool) {
	shared.Lock()
	defer shared.Unlock()
	for _, s := range []*startedNode{&shared.given, &shared.private} {
		if s.node != nil {
			s.node.Stop()
		}
		*s = startedNode{}
	}
	shared.open = open
}

// New returns the node of this test binary, started by the first call. A missing broker fails tb.
func New(tb TB) *Node {
	tb.Helper()
	if os.Getenv("AMQP_URL") == "" {
		return Private(tb)
	}
	return sharedNode(tb, &shared.given, Options{})
}

// Private returns a node of this test binary that is ours to steer, even where AMQP_URL is set.
// Without AMQP_URL it is the node of [New].
func Private(tb TB) *Node {
	tb.Helper()
	return sharedNode(tb, &shared.private, Options{Private: true})
}

func sharedNode(tb TB, s *startedNode, opts Options) *Node {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.open {
		tb.Fatalf("no shared node: call bridgetest.Main(m) in TestMain, so that somebody stops it")
	}
	if s.node == nil && s.err == nil {
		opts.Log = os.Stderr
		s.node, s.err = Start(context.Background(), opts)
	}
	if s.err != nil {
		tb.Fatalf("%v", s.err)
	}
	return s.node
}

// Vhost is a test's own part of a node.
type Vhost struct {
	// Name is the vhost's name, "/" for the default vhost.
	Name string
	// URL is the address to dial.
	URL string

	node *Node
}

// Vhost returns a fresh vhost, so that tests do not see one another. What a test leaves in it
// disturbs nobody and goes with the node; deleting it at once would cost each test half a second.
//
// A broker given by AMQP_URL is used in the vhost of that address, since AMQP cannot make one: take
// the names of queues and exchanges from [Vhost.Queue] and [Vhost.Exchange] to be apart there too.
func (n *Node) Vhost(tb TB) *Vhost {
	tb.Helper()
	if n.given {
		uri, err := amqp.ParseURI(n.url)
		if err != nil {
			tb.Fatalf("AMQP_URL is no AMQP address")
		}
		return &Vhost{Name: uri.Vhost, URL: n.url, node: n}
	}
	name, err := n.freshVhost()
	if err != nil {
		tb.Fatalf("make a vhost: %v", err)
	}
	return &Vhost{Name: name, URL: n.url + name, node: n}
}

// freshVhost takes a vhost that nobody had, and makes some more if there is none.
func (n *Node) freshVhost() (string, error) {
	n.vhosts.Lock()
	defer n.vhosts.Unlock()
	if len(n.vhosts.fresh) == 0 {
		if err := n.makeVhosts(); err != nil {
			return "", err
		}
	}
	name := n.vhosts.fresh[0]
	n.vhosts.fresh = n.vhosts.fresh[1:]
	return name, nil
}

// vhostBatch is how many vhosts are made at a time: most of the cost is to start rabbitmqctl.
const vhostBatch = 8

// makeVhosts makes them by an expression: importing definitions reads them from
// rabbitmqctl's standard input, which it sometimes finds empty under load.
func (n *Node) makeVhosts() error {
	names, quoted := make([]string, vhostBatch), make([]string, vhostBatch)
	for i := range names {
		names[i] = "test-" + strings.ToLower(rand.Text())
		quoted[i] = `<<"` + names[i] + `">>`
	}
	const perVhost = `[begin rabbit_vhost:add(V, <<"guest">>), ` +
		`rabbit_auth_backend_internal:set_permissions(<<"guest">>, V, <<".*">>, <<".*">>, <<".*">>, <<"guest">>) end || V <- [%s]].`
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := n.Ctl(ctx, "eval", fmt.Sprintf(perVhost, strings.Join(quoted, ", "))); err != nil {
		return err
	}
	n.vhosts.fresh = names
	return nil
}

// Queue returns a name that no other test uses. On a broker that outlives the test, the queue of
// that name is deleted when tb ends.
func (v *Vhost) Queue(tb TB, prefix string) string {
	return v.name(tb, prefix, func(ch *amqp.Channel, name string) error {
		_, err := ch.QueueDelete(name, false, false, false)
		return err
	})
}

// Exchange returns a name that no other test uses. On a broker that outlives the test, the exchange
// of that name is deleted when tb ends.
func (v *Vhost) Exchange(tb TB, prefix string) string {
	return v.name(tb, prefix, func(ch *amqp.Channel, name string) error {
		return ch.ExchangeDelete(name, false, false)
	})
}

func (v *Vhost) name(tb TB, prefix string, remove func(*amqp.Channel, string) error) string {
	tb.Helper()
	name := fmt.Sprintf("%s-%s", prefix, strings.ToLower(rand.Text()))
	if v.node.given {
		tb.Cleanup(func() {
			if err := v.withChannel(func(ch *amqp.Channel) error { return remove(ch, name) }); err != nil {
				tb.Errorf("delete %s: %v", name, err)
			}
		})
	}
	return name
}

func (v *Vhost) withChannel(do func(*amqp.Channel) error) error {
	conn, err := amqp.Dial(v.URL)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return do(ch)
}

// CloseConnections closes the connections to this vhost, with reason as the text clients see.
func (v *Vhost) CloseConnections(ctx context.Context, reason string) error {
	_, err := v.node.Ctl(ctx, "close_all_connections", "--vhost", v.Name, reason)
	return err
}

// Queues lists the queues of this vhost.
func (v *Vhost) Queues(ctx context.Context) ([]Queue, error) { return v.node.Queues(ctx, v.Name) }
