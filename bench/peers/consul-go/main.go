// HashiCorp's Go client at the same work, by the same options and with the same row of results as holdfast_bench.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand"
	"net"
	"net/http"
	"os"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
)

var (
	workload   = flag.String("workload", "cycle", "cycle, pool, handoff, mixed, open-loop, loss")
	contenders = flag.Int("contenders", 1, "who take part")
	limit      = flag.Int("limit", 1, "slots")
	window     = flag.Float64("seconds", 1, "measured time")
	rate       = flag.Float64("rate", 0, "arrivals per second, of open-loop")
	prefix     = fmt.Sprintf("bench/go-%d", os.Getpid())
)

func fail(err error) {
	if err != nil {
		log.Fatal("consul-go: ", err)
	}
}

// --- Requests and bytes, counted where they pass.

var requests, bytes int64

type countingConn struct{ net.Conn }

func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	atomic.AddInt64(&bytes, int64(n))
	return n, err
}

func (c countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	atomic.AddInt64(&bytes, int64(n))
	return n, err
}

type countingRequests struct{ http.RoundTripper }

func (t countingRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	atomic.AddInt64(&requests, 1)
	return t.RoundTripper.RoundTrip(r)
}

// Each client is a process's: connections of its own.
func newClient() *api.Client {
	config := api.DefaultConfig()
	transport := config.Transport
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return countingConn{c}, nil
	}
	config.HttpClient = &http.Client{Transport: countingRequests{transport}}
	client, err := api.NewClient(config)
	fail(err)
	return client
}

// --- What the contenders share.

type arena struct {
	sync.Mutex
	measuring bool
	inside    int
	peak      int
	freed     []time.Time
	last      []time.Time
	turn      int
	shares    []float64
	times     []time.Duration
	turns     []time.Duration
	errors    int
	seen      int
}

// Says whether the window is on.
func (a *arena) entered(unit int, asked time.Time) bool {
	a.Lock()
	defer a.Unlock()
	now := time.Now()
	a.inside++
	if a.inside > a.peak {
		a.peak = a.inside
	}
	var handoff time.Duration
	if len(a.freed) > 0 {
		handoff = now.Sub(a.freed[0])
		a.freed = a.freed[1:]
	}
	if unit != a.turn {
		a.turn = unit
		if left := a.last[unit]; a.measuring && !left.IsZero() {
			a.turns = append(a.turns, now.Sub(left))
		}
	}
	if a.last[unit].IsZero() {
		a.seen++
	}
	a.last[unit] = now
	if !a.measuring {
		return false
	}
	a.shares[unit]++
	if *workload == "handoff" {
		a.times = append(a.times, handoff)
	} else if *workload != "cycle" {
		a.times = append(a.times, now.Sub(asked))
	}
	return true
}

func (a *arena) leaving(unit int) {
	a.Lock()
	defer a.Unlock()
	a.inside--
	a.last[unit] = time.Now()
	a.freed = append(a.freed, a.last[unit])
}

func (a *arena) cycled(asked time.Time) {
	a.Lock()
	defer a.Unlock()
	if a.measuring && *workload == "cycle" {
		a.times = append(a.times, time.Since(asked))
	}
}

func (a *arena) limitHeld() *bool {
	held := a.peak <= *limit
	return &held
}

func (a *arena) failed(err error) {
	a.Lock()
	defer a.Unlock()
	if a.errors++; a.errors == 1 {
		log.Print("consul-go: ", err)
	}
}

func (a *arena) contend(client *api.Client, unit int) {
	for {
		semaphore, err := client.SemaphorePrefix(prefix, *limit)
		fail(err)
		for err == nil {
			asked := time.Now()
			if _, err = semaphore.Acquire(nil); err != nil {
				break
			}
			if !a.entered(unit, asked) {
				time.Sleep(time.Millisecond) // outside the window, where the limit is seen to hold
			}
			a.leaving(unit)
			if err = semaphore.Release(); err == nil {
				a.cycled(asked)
			}
		}
		a.failed(err) // such as a connection that the agent reset: begin anew
		time.Sleep(100 * time.Millisecond)
	}
}

func closedLoop() {
	processes := map[string]int{"cycle": 1, "pool": 1, "handoff": *contenders, "mixed": 8}[*workload]
	units := processes // whose shares are compared
	if processes == 1 {
		units = *contenders
	}
	a := &arena{last: make([]time.Time, units), shares: make([]float64, units)}
	before := memory()
	var client *api.Client
	for i := 0; i < *contenders; i++ {
		if i%(*contenders/processes) == 0 {
			client = newClient()
		}
		go a.contend(client, i*units / *contenders)
	}
	patience := time.Duration((2 + *window) * 1e9)
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp); time.Sleep(5 * time.Millisecond) {
		a.Lock()
		seen := a.seen
		a.Unlock()
		if seen == units {
			break
		}
	}
	around := time.Duration(math.Min(*window/4, 0.5) * 1e9)
	time.Sleep(around)
	perWaiter := (memory() - before) / float64(*contenders)

	a.Lock()
	a.measuring = true
	requestsBefore, bytesBefore, begun := atomic.LoadInt64(&requests), atomic.LoadInt64(&bytes), time.Now()
	a.Unlock()
	time.Sleep(time.Duration(*window * 1e9))
	a.Lock()
	a.measuring = false
	measured := time.Since(begun).Seconds()
	used, passed := atomic.LoadInt64(&requests)-requestsBefore, atomic.LoadInt64(&bytes)-bytesBefore
	a.Unlock()
	time.Sleep(around)
	a.Lock() // for good: the program ends

	r := row{Limit: a.limitHeld(), Errors: a.errors}
	operations := 0.0
	for _, share := range a.shares {
		operations += share
	}
	r.rates(operations, measured, used, passed)
	if *workload != "cycle" {
		if operations >= 4*float64(units) { // or there are too few to tell
			r.Jain = some(jain(a.shares))
		}
		r.BytesPerWaiter = some(perWaiter)
	}
	r.TurnWaitMax = turnWait(a.turns, processes)
	r.print(a.times)
}

func memory() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// How long who has arrived keeps the slot, as in arrivals.hpp.
const visitTime = time.Millisecond

func openLoop() {
	clients := make([]*api.Client, *contenders)
	for i := range clients {
		clients[i] = newClient()
	}
	a := &arena{}
	var all sync.WaitGroup
	visit := func(client *api.Client, arrived time.Time) {
		defer all.Done()
		semaphore, err := client.SemaphorePrefix(prefix, *limit)
		fail(err)
		if _, err = semaphore.Acquire(nil); err != nil {
			a.failed(err)
			return
		}
		a.Lock()
		a.times = append(a.times, time.Since(arrived))
		if a.inside++; a.inside > a.peak {
			a.peak = a.inside
		}
		a.Unlock()
		time.Sleep(visitTime)
		a.Lock()
		a.inside--
		a.Unlock()
		if err = semaphore.Release(); err != nil {
			a.failed(err)
		}
	}
	random := rand.New(rand.NewSource(1))
	begun := time.Now()
	requestsBefore, bytesBefore := atomic.LoadInt64(&requests), atomic.LoadInt64(&bytes)
	next := begun
	for turn := 0; ; turn++ {
		next = next.Add(time.Duration(random.ExpFloat64() / *rate * 1e9))
		if next.Sub(begun).Seconds() > *window {
			break
		}
		time.Sleep(time.Until(next))
		all.Add(1)
		go visit(clients[turn%len(clients)], next)
	}
	done := make(chan bool)
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		a.failed(fmt.Errorf("visitors still wait 5 s after the last arrival"))
	}
	a.Lock()
	r := row{Limit: a.limitHeld(), Errors: a.errors}
	r.rates(float64(len(a.times)), time.Since(begun).Seconds(), atomic.LoadInt64(&requests)-requestsBefore,
		atomic.LoadInt64(&bytes)-bytesBefore)
	r.print(a.times)
}

func loss() {
	client := newClient()
	var times []time.Duration
	for end := time.Now().Add(time.Duration(*window * 1e9)); time.Now().Before(end); {
		semaphore, err := client.SemaphorePrefix(prefix, *limit)
		fail(err)
		lost, err := semaphore.Acquire(nil)
		fail(err)
		time.Sleep(15 * time.Millisecond)
		entries, _, err := client.KV().List(prefix+"/", nil)
		fail(err)
		session := ""
		for _, entry := range entries {
			if entry.Session != "" {
				session = entry.Session
			}
		}
		destroyed := time.Now()
		noticed := make(chan time.Duration)
		go func() { <-lost; noticed <- time.Since(destroyed) }()
		_, err = client.Session().Destroy(session, nil)
		fail(err)
		times = append(times, <-noticed)
		semaphore.Release()
	}
	(&row{}).print(times)
}

// --- The row.

type row struct {
	Workload       string    `json:"workload"`
	System         string    `json:"system"`
	Contenders     int       `json:"contenders"`
	LimitSlots     int       `json:"limit"`
	OpsPerS        *float64  `json:"ops_per_s"`
	P50            *float64  `json:"p50_ms"`
	P99            *float64  `json:"p99_ms"`
	RequestsPerOp  *float64  `json:"requests_per_op"`
	BytesPerOp     *float64  `json:"bytes_per_op"`
	Jain           *float64  `json:"jain"`
	BytesPerWaiter *float64  `json:"bytes_per_waiter"`
	Limit          *bool     `json:"limit_held"`
	Connections    *float64  `json:"connections"`
	TurnWaitMax    *float64  `json:"turn_wait_max"`
	Errors         int       `json:"errors"`
	Rate           *float64  `json:"rate"`
	Samples        int       `json:"samples"`
	Distribution   []float64 `json:"distribution"`
}

func some(x float64) *float64 { return &x }

func (r *row) rates(operations, seconds float64, requests, bytes int64) {
	r.OpsPerS = some(operations / seconds)
	if operations > 0 {
		r.RequestsPerOp = some(float64(requests) / operations)
		r.BytesPerOp = some(float64(bytes) / operations)
	}
}

func (r *row) print(times []time.Duration) {
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	at := func(q float64) float64 {
		i := int(q * float64(len(times)))
		if i >= len(times) {
			i = len(times) - 1
		}
		return times[i].Seconds() * 1000
	}
	r.Distribution = []float64{}
	if len(times) > 0 {
		r.P50, r.P99 = some(at(.5)), some(at(.99))
		for _, q := range []float64{.01, .05, .1, .25, .5, .75, .9, .95, .99, .999, 1} {
			r.Distribution = append(r.Distribution, at(q))
		}
	}
	r.Workload, r.System, r.Contenders, r.LimitSlots = *workload, "consul-go", *contenders, *limit
	r.Samples = len(times)
	if *rate > 0 {
		r.Rate = rate
	}
	fail(json.NewEncoder(os.Stdout).Encode(r))
}

func jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

func turnWait(turns []time.Duration, processes int) *float64 {
	if processes == 1 || *limit > 1 || len(turns) == 0 {
		return nil
	}
	sum, max := 0.0, 0.0
	for _, t := range turns {
		sum += float64(t)
		max = math.Max(max, float64(t))
	}
	return some(max / (sum / float64(len(turns))))
}

func main() {
	flag.Parse()
	log.SetFlags(0)
	switch *workload {
	case "cycle", "pool", "handoff", "mixed":
		closedLoop()
	case "open-loop":
		openLoop()
	case "loss":
		loss()
	default:
		log.Fatal("consul-go: unknown workload ", *workload)
	}
}
