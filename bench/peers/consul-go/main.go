// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

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
	"os/exec"
	"runtime"
	"runtime/debug"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/hashicorp/consul/api"
)

var (
	workload   = flag.String("workload", "cycle", "cycle, pool, handoff, mixed, open-loop, loss, waiting")
	contenders = flag.Int("contenders", 1, "who take part")
	limit      = flag.Int("limit", 1, "slots")
	window     = flag.Float64("seconds", 1, "measured time")
	rate       = flag.Float64("rate", 0, "arrivals per second, of open-loop")
	system     = flag.String("system", "consul-go", "consul-go-channel, consul-go-kept: goroutines share; else they contend")
	patience   = flag.Float64("patience", 60, "seconds until every contender has had a turn")
	member     = flag.Int("member", -1, "which of the processes this is; the first starts the others")
	broken     = flag.Bool("broken", false, "make one slot too many, to see the limit checker notice")
	prefix     string
	clientIs   string // its version: the linker is told
)

func eachContends() bool { return *system != "consul-go-channel" && *system != "consul-go-kept" }

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

// --- What the contenders share, in all processes: it lies in a file that has no name any more.

const (
	processesMax = 8
	slotsMax     = 1024
)

type board struct {
	Inside, Peak   int64
	Warm           int64 // contenders that have had a turn
	Turn           int64 // the last unit to have had one
	Begin          int64 // of the window, when that is known
	NotServed      int64 // when it was
	Stopping       int64
	Pushed, Popped int64 // slots let go, and those of them taken again
	Freed          [slotsMax]int64
}

func newBoard() *os.File {
	file, err := os.CreateTemp("", "holdfast-bench-")
	fail(err)
	fail(os.Remove(file.Name()))
	fail(file.Truncate(int64(unsafe.Sizeof(board{}))))
	return file
}

func mapBoard(file *os.File) *board {
	memory, err := syscall.Mmap(int(file.Fd()), 0, int(unsafe.Sizeof(board{})), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
	fail(err)
	return (*board)(unsafe.Pointer(&memory[0]))
}

// Nanoseconds on the monotonic clock, which all processes share.
func now() int64 {
	var t syscall.Timespec
	const monotonic = 1
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func (b *board) enter() {
	inside := atomic.AddInt64(&b.Inside, 1)
	for peak := atomic.LoadInt64(&b.Peak); peak < inside; peak = atomic.LoadInt64(&b.Peak) {
		atomic.CompareAndSwapInt64(&b.Peak, peak, inside)
	}
}

func (b *board) free(at int64) {
	atomic.StoreInt64(&b.Freed[(atomic.AddInt64(&b.Pushed, 1)-1)%slotsMax], at)
}

// When the slot was let go that has waited longest; 0 if none has.
func (b *board) take() int64 {
	for next := atomic.LoadInt64(&b.Popped); next < atomic.LoadInt64(&b.Pushed); next = atomic.LoadInt64(&b.Popped) {
		if !atomic.CompareAndSwapInt64(&b.Popped, next, next+1) {
			continue
		}
		for {
			if at := atomic.SwapInt64(&b.Freed[next%slotsMax], 0); at != 0 {
				return at
			}
		}
	}
	return 0
}

// What one process has to say of the window.
type part struct {
	Shares          []float64
	Times, Turns    []time.Duration
	Errors          int
	Requests, Bytes int64
	Seconds         float64
}

type arena struct {
	sync.Mutex
	*board
	part
	measuring bool
	last      []int64
}

// Says whether the window is on.
func (a *arena) entered(unit int, asked int64) bool {
	if atomic.LoadInt64(&a.Stopping) == 0 {
		a.enter()
	}
	freed := int64(0)
	if *workload == "handoff" {
		freed = a.take()
	}
	a.Lock()
	defer a.Unlock()
	at := now()
	if atomic.SwapInt64(&a.Turn, int64(unit)) != int64(unit) && a.measuring && a.last[unit] != 0 {
		a.Turns = append(a.Turns, time.Duration(at-a.last[unit]))
	}
	a.last[unit] = at
	if !a.measuring {
		return false
	}
	a.Shares[unit]++
	if *workload == "handoff" && freed != 0 {
		a.Times = append(a.Times, time.Duration(at-freed))
	} else if *workload == "pool" || *workload == "mixed" {
		a.took(at - asked)
	}
	return true
}

// Of millions, the first are enough.
func (a *arena) took(t int64) {
	if len(a.Times) < 1000000 {
		a.Times = append(a.Times, time.Duration(t))
	}
}

func (a *arena) leaving(unit int) {
	atomic.AddInt64(&a.Inside, -1)
	at := now()
	a.Lock()
	a.last[unit] = at
	a.Unlock()
	if *workload == "handoff" {
		a.free(at)
	}
}

func (a *arena) cycled(asked int64) {
	a.Lock()
	defer a.Unlock()
	if a.measuring && *workload == "cycle" {
		a.took(now() - asked)
	}
}

// Outside the window holders stay for a moment, so that the checker sees whether the limit holds. If there is one slot
// too many, they stay until the checker has noticed it.
func (a *arena) stay() {
	time.Sleep(time.Millisecond)
	for a.mustBeNoticed() && atomic.LoadInt64(&a.Stopping) == 0 {
		time.Sleep(time.Millisecond)
	}
}

func (a *arena) mustBeNoticed() bool { return *broken && *a.limitHeld() }

func (a *arena) limitHeld() *bool {
	held := atomic.LoadInt64(&a.Peak) <= int64(*limit)
	return &held
}

func (a *arena) failed(err error) {
	a.Lock()
	defer a.Unlock()
	if a.Errors++; a.Errors == 1 {
		log.Print("consul-go: ", err)
	}
}

type slots interface {
	Acquire() error
	Release() error
}

// How many have a turn before the others may contend: each, unless they only share what the process has. If there is
// one slot too many, all contend at once, because too many must be inside.
func toWarm() int {
	if *broken {
		return 0
	}
	if eachContends() {
		return *contenders
	}
	return 1
}

// Left to chance it takes minutes until the last of 128 has had a turn. So they have their first ones one after the
// other, and contend when all have.
func (a *arena) awaitWarm(count int) {
	for atomic.LoadInt64(&a.Warm) < int64(count) {
		time.Sleep(time.Millisecond)
	}
}

func (a *arena) contend(newSlots func() (slots, error), unit, number int) {
	cold := number < toWarm()
	if cold {
		a.awaitWarm(number)
	} else {
		a.awaitWarm(toWarm())
	}
	for {
		semaphore, err := newSlots()
		fail(err)
		for err == nil {
			asked := now()
			if err = semaphore.Acquire(); err != nil {
				break
			}
			if !a.entered(unit, asked) {
				a.stay()
			}
			a.leaving(unit)
			if err = semaphore.Release(); err == nil {
				a.cycled(asked)
			}
			if cold {
				cold = false
				atomic.AddInt64(&a.Warm, 1)
				a.awaitWarm(toWarm())
			}
		}
		a.failed(err) // such as a connection that the agent reset: begin anew
		time.Sleep(100 * time.Millisecond)
	}
}

// A contender of its own.
type alone struct{ *api.Semaphore }

func (s alone) Acquire() error {
	_, err := s.Semaphore.Acquire(nil)
	return err
}

// The goroutines of one process share this, as a Go user would build it: one semaphore for each slot, behind a channel.
// Each turn takes a semaphore from the channel, and acquires and releases a slot with it. If `kept` is set, the process
// keeps the slots for as long as it lives. Then no other process gets a turn.
type shared struct {
	free chan *api.Semaphore
	kept bool
	mine *api.Semaphore
}

func (s *shared) Acquire() error {
	s.mine = <-s.free
	if s.kept {
		return nil
	}
	_, err := s.mine.Acquire(nil)
	if err != nil {
		s.free <- s.mine
	}
	return err
}

func (s *shared) Release() error {
	defer func() { s.free <- s.mine }()
	if s.kept {
		return nil
	}
	return s.mine.Release()
}

func newSemaphore(client *api.Client) *api.Semaphore {
	slotsMade := *limit
	if *broken {
		slotsMade++
	}
	semaphore, err := client.SemaphorePrefix(prefix, slotsMade)
	fail(err)
	return semaphore
}

// Makes what hands out slots, to goroutines of one client.
func sharing(client *api.Client) func() (slots, error) {
	if eachContends() {
		return func() (slots, error) { return alone{newSemaphore(client)}, nil }
	}
	free, kept := make(chan *api.Semaphore, *limit), *system == "consul-go-kept"
	for i := 0; i < *limit; i++ {
		semaphore := newSemaphore(client)
		if kept {
			_, err := semaphore.Acquire(nil)
			fail(err)
		}
		free <- semaphore
	}
	return func() (slots, error) { return &shared{free: free, kept: kept}, nil }
}

// The clients whose turns and shares are compared; or, if there is one only, its goroutines.
func countUnits() (clients, units int) {
	clients = map[string]int{"cycle": 1, "pool": 1, "handoff": *contenders, "mixed": 8}[*workload]
	if units = clients; clients == 1 {
		units = *contenders
	}
	return
}

// The first process starts the others, which share the clients out among them: the board is their descriptor 3.
func closedLoop() {
	clients, _ := countUnits()
	processes := clients
	if processes > processesMax {
		processes = processesMax
	}
	if *member >= 0 {
		mine := play(mapBoard(os.NewFile(3, "board")), *member, processes)
		fail(json.NewEncoder(os.Stdout).Encode(mine))
		return
	}
	file := newBoard()
	var children []*exec.Cmd
	var results []*json.Decoder
	for i := 1; i < processes; i++ {
		child := exec.Command("/proc/self/exe", append(os.Args[1:], "-member", fmt.Sprint(i), "-prefix", prefix)...)
		child.Stderr = os.Stderr
		child.ExtraFiles = []*os.File{file}
		child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := child.StdoutPipe()
		fail(err)
		fail(child.Start())
		children, results = append(children, child), append(results, json.NewDecoder(out))
	}
	common := mapBoard(file)
	all := play(common, 0, processes)
	for i, child := range children {
		var other part
		fail(results[i].Decode(&other))
		fail(child.Wait())
		for unit, share := range other.Shares {
			all.Shares[unit] += share
		}
		all.Times, all.Turns = append(all.Times, other.Times...), append(all.Turns, other.Turns...)
		all.Errors, all.Requests, all.Bytes = all.Errors+other.Errors, all.Requests+other.Requests, all.Bytes+other.Bytes
	}
	report(all, &arena{board: common}, clients, processes)
}

func play(common *board, member, processes int) part {
	clients, units := countUnits()
	a := &arena{board: common, last: make([]int64, units), part: part{Shares: make([]float64, units)}}
	for i := 0; i < clients; i++ {
		if i*processes/clients != member {
			continue
		}
		next := sharing(newClient())
		for j := i * *contenders / clients; j < (i+1)**contenders/clients; j++ {
			go a.contend(next, j*units / *contenders, j)
		}
	}
	around := int64(math.Min(*window/4, 0.5) * 1e9)
	length := int64(*window * 1e9)
	// Then all queue at once, and each new entry wakes up all: that is to be over.
	settle := around + int64(math.Min(float64(toWarm()), 128))*40e6
	giveUp := now() + int64(*patience*1e9)
	for atomic.LoadInt64(&a.Begin) == 0 {
		waiting := int64(toWarm()) - atomic.LoadInt64(&a.Warm)
		if (waiting > 0 || a.mustBeNoticed()) && now() < giveUp {
			time.Sleep(5 * time.Millisecond)
		} else if atomic.CompareAndSwapInt64(&a.Begin, 0, now()+settle) {
			atomic.StoreInt64(&a.NotServed, waiting)
		}
	}
	begin := a.Begin
	sleepUntil(begin)
	a.Lock()
	a.measuring = true
	requestsBefore, bytesBefore, begun := atomic.LoadInt64(&requests), atomic.LoadInt64(&bytes), now()
	a.Unlock()
	sleepUntil(begin + length)
	a.Lock()
	a.measuring = false
	a.Seconds = float64(now()-begun) / 1e9
	a.Requests, a.Bytes = atomic.LoadInt64(&requests)-requestsBefore, atomic.LoadInt64(&bytes)-bytesBefore
	a.Unlock()
	sleepUntil(begin + length + around)
	atomic.StoreInt64(&a.Stopping, 1)
	a.Lock() // for good: the program ends
	return a.part
}

func sleepUntil(at int64) { time.Sleep(time.Duration(at - now())) }

func report(all part, a *arena, clients, processes int) {
	r := row{Limit: a.limitHeld(), Errors: all.Errors, Processes: processes, NotServed: int(a.NotServed)}
	operations := 0.0
	for _, share := range all.Shares {
		operations += share
	}
	r.rates(operations, all.Seconds, all.Requests, all.Bytes)
	if *workload != "cycle" && operations >= 4*float64(len(all.Shares)) { // or there are too few to tell
		r.Jain = some(jain(all.Shares))
	}
	r.TurnWaitMax = turnWait(all.Turns, clients)
	r.print(all.Times)
}

// --- Memory of those who wait: each goroutine as a contender, with the session and the connection that its blocked
// Acquire has; or before the channel of those who share a process's slots, with neither.

func waiting() {
	client := newClient()
	holder := newSemaphore(client)
	_, err := holder.Acquire(nil)
	fail(err)
	heap, resident := memory()
	if eachContends() {
		for i := 0; i < *contenders; i++ {
			go func() { newSemaphore(client).Acquire(nil) }()
		}
		for entries := 0; entries < *contenders+2; time.Sleep(100 * time.Millisecond) {
			keys, _, err := client.KV().Keys(prefix+"/", "", nil)
			fail(err)
			entries = len(keys) // theirs, the holder's, and the lock
		}
		for last := int64(0); last != atomic.LoadInt64(&requests); time.Sleep(time.Second) {
			last = atomic.LoadInt64(&requests)
		}
	} else {
		free, ready := make(chan *api.Semaphore), new(int64)
		for i := 0; i < *contenders; i++ {
			go func() { atomic.AddInt64(ready, 1); (&shared{free: free}).Acquire() }()
		}
		for atomic.LoadInt64(ready) < int64(*contenders) {
			time.Sleep(time.Millisecond)
		}
	}
	heapNow, residentNow := memory()
	each := float64(*contenders)
	r := row{BytesPerWaiter: some((heapNow - heap) / each), ResidentPerWaiter: some((residentNow - resident) / each)}
	r.print(nil)
}

// What Go has in use after a collection, stacks included, and what the kernel has given it.
func memory() (inUse, resident float64) {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	text, err := os.ReadFile("/proc/self/statm")
	fail(err)
	var all, pages int
	_, err = fmt.Sscan(string(text), &all, &pages)
	fail(err)
	return float64(m.HeapAlloc + m.StackInuse), float64(pages * os.Getpagesize())
}

// How long who has arrived keeps the slot, as in arrivals.hpp.
const visitTime = time.Millisecond

func openLoop() {
	clients := make([]*api.Client, *contenders)
	for i := range clients {
		clients[i] = newClient()
		warm := newSemaphore(clients[i])
		_, err := warm.Acquire(nil)
		fail(err)
		fail(warm.Release())
	}
	a := &arena{board: &board{}}
	var all sync.WaitGroup
	visit := func(client *api.Client, arrived time.Time) {
		defer all.Done()
		semaphore, err := client.SemaphorePrefix(prefix, *limit)
		fail(err)
		if _, err = semaphore.Acquire(nil); err != nil {
			a.failed(err)
			return
		}
		a.enter()
		a.Lock()
		a.Times = append(a.Times, time.Since(arrived))
		a.Unlock()
		time.Sleep(visitTime)
		atomic.AddInt64(&a.Inside, -1)
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
	r := row{Limit: a.limitHeld(), Errors: a.Errors}
	r.rates(float64(len(a.Times)), time.Since(begun).Seconds(), atomic.LoadInt64(&requests)-requestsBefore,
		atomic.LoadInt64(&bytes)-bytesBefore)
	r.print(a.Times)
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
	Workload          string    `json:"workload"`
	System            string    `json:"system"`
	Contenders        int       `json:"contenders"`
	LimitSlots        int       `json:"limit"`
	OpsPerS           *float64  `json:"ops_per_s"`
	P50               *float64  `json:"p50_ms"`
	P99               *float64  `json:"p99_ms"`
	RequestsPerOp     *float64  `json:"requests_per_op"`
	BytesPerOp        *float64  `json:"bytes_per_op"`
	Jain              *float64  `json:"jain"`
	BytesPerWaiter    *float64  `json:"bytes_per_waiter"`
	ResidentPerWaiter *float64  `json:"resident_per_waiter"`
	Processes         int       `json:"processes"`
	NotServed         int       `json:"not_served"`
	Limit             *bool     `json:"limit_held"`
	Connections       *float64  `json:"connections"`
	TurnWaitMax       *float64  `json:"turn_wait_max"`
	Errors            int       `json:"errors"`
	Rate              *float64  `json:"rate"`
	Samples           int       `json:"samples"`
	Distribution      []float64 `json:"distribution"`
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
	r.Workload, r.System, r.Contenders, r.LimitSlots = *workload, *system, *contenders, *limit
	r.Samples = len(times)
	if r.Processes == 0 {
		r.Processes = 1
	}
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
	flag.StringVar(&prefix, "prefix", fmt.Sprintf("bench/go-%d", os.Getpid()), "below which everything is kept")
	about := flag.Bool("about", false, "print the versions of the client and of Go")
	flag.Parse()
	if *about {
		fmt.Printf("%s, %s\n", clientIs, runtime.Version())
		return
	}
	log.SetFlags(0)
	switch *workload {
	case "cycle", "pool", "handoff", "mixed":
		closedLoop()
	case "open-loop":
		openLoop()
	case "loss":
		loss()
	case "waiting":
		waiting()
	default:
		log.Fatal("consul-go: unknown workload ", *workload)
	}
}
