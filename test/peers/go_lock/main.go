// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// HashiCorp's lock, as Go programs use it (api.Lock), on the key of a mutex of ours, or its semaphore (api.Semaphore) on
// the prefix of one of ours: takes turns, and writes into a file when it enters and when it leaves.
package main

import (
	"flag"
	"log"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

var (
	agent      = flag.String("agent", "", "host:port")
	key        = flag.String("key", "", "the lock's, or the semaphore's prefix")
	slots      = flag.Int("slots", 0, "the semaphore's limit; 0: a lock")
	value      = flag.String("value", "go", "what the key says while it is held")
	journal    = flag.String("journal", "", "gets a line, +theirs or -theirs, whenever somebody enters or leaves")
	contenders = flag.Int("contenders", 1, "who take turns, each with a client of its own")
	hold       = flag.Duration("hold", time.Millisecond, "how long each turn takes")
	ttl        = flag.String("ttl", "10s", "of the sessions")
	until      = flag.String("until", "", "ends when this file is there")
	once       = flag.Bool("once", false, "one turn each, which lasts until that file is there")
)

func fail(err error) {
	if err != nil {
		log.Fatal("go_lock: ", err)
	}
}

func over() bool {
	_, err := os.Stat(*until)
	return err == nil
}

type enterFunc func(stop <-chan struct{}) (lost <-chan struct{}, err error)

func turnsOf(client *api.Client) (enterFunc, func() error) {
	if *slots > 0 {
		semaphore, err := client.SemaphoreOpts(&api.SemaphoreOptions{
			Prefix: *key, Limit: *slots, Value: []byte(*value), SessionName: "go_lock", SessionTTL: *ttl,
		})
		fail(err)
		return semaphore.Acquire, semaphore.Release
	}
	lock, err := client.LockOpts(&api.LockOptions{
		Key:        *key,
		Value:      []byte(*value),
		SessionTTL: *ttl,
		// Without the lock delay: then somebody else gets in as soon as the session of a killed one has ended.
		SessionOpts: &api.SessionEntry{Name: "go_lock", TTL: *ttl, LockDelay: time.Millisecond, Behavior: "delete"},
	})
	fail(err)
	return lock.Lock, lock.Unlock
}

func takeTurns(file *os.File) {
	config := api.DefaultConfig()
	config.Address = *agent
	client, err := api.NewClient(config)
	fail(err)
	enter, leave := turnsOf(client)
	for {
		lost, err := enter(nil)
		fail(err)
		_, err = file.WriteString("+theirs\n")
		fail(err)
		for begun := time.Now(); *once && !over() || time.Since(begun) < *hold; {
			time.Sleep(time.Millisecond)
		}
		select {
		case <-lost:
			log.Fatal("go_lock: lost what it held")
		default:
		}
		_, err = file.WriteString("-theirs\n")
		fail(err)
		fail(leave())
		if *once || over() {
			return
		}
	}
}

func main() {
	flag.Parse()
	file, err := os.OpenFile(*journal, os.O_APPEND|os.O_WRONLY, 0)
	fail(err)
	var all sync.WaitGroup
	for i := 0; i < *contenders; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			takeTurns(file)
		}()
	}
	all.Wait()
}
