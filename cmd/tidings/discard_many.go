package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"tidings/cmd/internal/api"
)

// discardMany ends the dead letters that a filter chooses for good. Which they are is
// frozen before anybody is asked.
func (c *cli) discardMany(ctx context.Context, q api.LetterQuery, reason string, may consent) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	chosen, err := c.chosen(ctx, client, q)
	if err != nil {
		return err
	}
	if may.dryRun && c.json {
		return c.printJSON(chosen)
	}
	if err := c.aboutMany(chosen, may); err != nil {
		return err
	}
	goOn, err := c.confirm(ctx, may, fmt.Sprintf("Discard %d dead letters for good?", len(chosen)))
	if err != nil || !goOn {
		return err
	}
	total, err := c.discardAll(ctx, client, chosen, reason)
	for _, s := range total.Skipped {
		c.message("skipped %s: %s", s.Key, s.Why)
	}
	if err != nil {
		c.message("%d of %d were discarded: the same command goes on with the rest", total.Discarded, len(chosen))
		return err
	}
	if c.json {
		return c.printJSON(total)
	}
	return c.fields("discarded", strconv.Itoa(total.Discarded), "skipped", strconv.Itoa(len(total.Skipped)))
}

// discardAll makes as many requests as it takes, the oldest letters first.
func (c *cli) discardAll(ctx context.Context, client *api.Client, chosen []api.LetterLine, reason string) (api.BulkDiscarded, error) {
	total := api.BulkDiscarded{Skipped: []api.SkippedLetter{}}
	say, done := c.progress(time.Now()), 0
	slices.Reverse(chosen)
	for some := range slices.Chunk(chosen, api.MaxBulk/10) {
		of := make([]api.LetterAt, len(some))
		for i, l := range some {
			of[i] = api.LetterAt{Key: l.Key, Sequence: l.Sequence}
		}
		got, err := client.DiscardLetters(ctx, reason, of)
		if err != nil {
			return total, err
		}
		total.Discarded += got.Discarded
		total.Skipped = append(total.Skipped, got.Skipped...)
		done += len(some)
		say(done, len(chosen))
	}
	return total, nil
}

// aboutMany says which letters something is about to be done to.
func (c *cli) aboutMany(chosen []api.LetterLine, may consent) error {
	causes, types := map[string]int{}, map[string]int{}
	for _, l := range chosen {
		causes[string(l.Cause)]++
		types[first(l.Type, "unknown")]++
	}
	pairs := []string{"dead letters", strconv.Itoa(len(chosen))}
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		pairs = append(pairs, " cause "+cause, strconv.Itoa(causes[cause]))
	}
	for _, typ := range slices.Sorted(maps.Keys(types)) {
		pairs = append(pairs, " type "+clean(typ), strconv.Itoa(types[typ]))
	}
	pairs = append(pairs, "oldest", clock(chosen[len(chosen)-1].At), "newest", clock(chosen[0].At))
	return c.asking(may).fields(pairs...)
}
