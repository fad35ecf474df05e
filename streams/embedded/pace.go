package embedded

import (
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A follower may ask so often. For every request the server remembers for a while
// whom the answer is for, so that one which asks in a loop would fill the memory.
const (
	paceEvery = 250 * time.Millisecond
	maxAsked  = 5000 // requests in that time
)

// pace cuts off followers who ask too often, until stop is closed.
func (s *Server) pace(stop <-chan struct{}) {
	tick := time.NewTicker(paceEvery)
	defer tick.Stop()
	asked := map[uint64]int64{}
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		asked = s.cutOff(asked)
	}
}

// cutOff returns how often each follower has asked until now, before being what it
// returned the last time.
func (s *Server) cutOff(before map[uint64]int64) map[uint64]int64 {
	connections, err := s.ns.Connz(&server.ConnzOptions{Account: followersAccount, Username: true, Limit: maxConns})
	if err != nil {
		return before
	}
	asked := make(map[uint64]int64, len(connections.Conns))
	for _, c := range connections.Conns {
		if asked[c.Cid] = c.InMsgs; c.AuthorizedUser == proxyUser || c.InMsgs-before[c.Cid] <= maxAsked {
			continue
		}
		s.logger.Warn("a follower asks too often and is cut off", "name", c.Name, "address", c.IP, "requests", c.InMsgs-before[c.Cid], "in", paceEvery)
		_ = s.ns.DisconnectClientByID(c.Cid) // else it is gone already
	}
	return asked
}
