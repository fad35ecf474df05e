package main

import (
	"context"
	"strconv"
	"time"

	"tidings/cmd/internal/api"
)

// showTries lists the messages of an event with every call for them. One that was
// never tried has a line, too.
func (c *cli) showTries(ctx context.Context, id, tenant string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	found, err := client.Event(ctx, id, tenant)
	if err != nil {
		return withHint(err, listLettersCommand)
	}
	var all []api.MessageTries
	for cursor := ""; ; {
		page, err := client.Tries(ctx, found.Event.Key, cursor)
		if err != nil {
			return err
		}
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if c.json {
		return c.printJSON(api.MessagePage{Items: append([]api.MessageTries{}, all...)})
	}
	return c.table([]string{"MESSAGE", "CHANNEL", "RECIPIENT", "ROUND", "TRY", "STARTED", "TOOK", "RESULT", "CODE", "VIA"}, tryRows(all))
}

func tryRows(messages []api.MessageTries) [][]string {
	var rows [][]string
	for _, m := range messages {
		head := []string{m.ID, m.Channel, m.Recipient.Mask}
		if len(m.Tried) == 0 {
			rows = append(rows, append(head, "", "", "", "", string(m.State), m.Code, m.Via))
		}
		for _, t := range m.Tried {
			rows = append(rows, append(head[:3:3], strconv.Itoa(t.Round), strconv.Itoa(t.Try), t.Started.UTC().Format("2006-01-02T15:04:05.000Z"),
				t.Ended.Sub(t.Started).Round(time.Microsecond).String(), string(t.Result), t.Code, t.Via))
		}
	}
	return rows
}
