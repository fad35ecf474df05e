package streams

// Queued returns how many records wait for their commit in strict durability.
func (l *Log) Queued() int { return l.outs.(*committer).queued() }

// QueuedEvents returns how many events wait for their commit.
func (l *Log) QueuedEvents() int { return l.events.(*committer).queued() }

func (c *committer) queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}
