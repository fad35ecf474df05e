package bench

import (
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// meter counts acknowledgements until there are enough.
type meter struct {
	done chan struct{} // closed when there are

	mu    sync.Mutex // guards what follows
	first time.Time  // when the first delivery was taken
	last  time.Time  // when the last was acknowledged
	held  []time.Duration
	peak  Memory
}

func newMeter(want int) *meter {
	held := make([]time.Duration, want)
	for i := range held {
		held[i] = 1 // so that the system gives the memory now
	}
	return &meter{done: make(chan struct{}), held: held[:0]}
}

// acked notes an acknowledgement, held after its delivery was taken.
func (m *meter) acked(held time.Duration) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) == cap(m.held) {
		return // a repeat; the log says whether all is there
	}
	if taken := now.Add(-held); m.first.IsZero() || taken.Before(m.first) {
		m.first = taken
	}
	m.last, m.held = now, append(m.held, held)
	m.look()
	if len(m.held) == cap(m.held) {
		close(m.done)
	}
}

// look notes the memory at certain points. It is called with mu held.
func (m *meter) look() {
	switch n, of := len(m.held), cap(m.held); n {
	case of:
		m.peak.At100 = round(peakRSS(), 1)
	case of / 2:
		m.peak.At50 = round(peakRSS(), 1)
	case of / 10:
		m.peak.At10 = round(peakRSS(), 1)
	}
}

func (m *meter) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.held)
}

// result is for a meter that is done.
func (m *meter) result() measured {
	m.mu.Lock()
	defer m.mu.Unlock()
	return measured{rate: float64(len(m.held)) / m.last.Sub(m.first).Seconds(), held: m.held, peak: m.peak}
}

// measured is what one measurement showed.
type measured struct {
	rate float64         // messages a second
	held []time.Duration // from taken to acknowledged, of each
	peak Memory
}

func medianRate(of []measured) float64 {
	rates := make([]float64, len(of))
	for i, m := range of {
		rates[i] = m.rate
	}
	return median(rates)
}

// median returns the middle value, or the mean of the two in the middle.
func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	n := len(of)
	return (of[(n-1)/2] + of[n/2]) / 2
}

// percentile returns the least value that p percent of sorted do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func round(f float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(f*scale) / scale
}

// resetPeakRSS makes Linux forget the peak so far. Where it cannot, the peak is
// that of the whole run.
func resetPeakRSS() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// peakRSS returns the most memory that the process had, in MiB.
func peakRSS() float64 {
	status, _ := os.ReadFile("/proc/self/status") // not there but on Linux
	return peakIn(string(status))
}

func peakIn(status string) float64 {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib / 1024
		}
	}
	return 0
}
