package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysThatBeginWithAHyphenAreNoFlags(t *testing.T) {
	const plain, hyphen = "kfQG3b8Tn6muLHPVukv2pQ", "-bbPCMMcnF4epfnpdDdaQA"
	for name, c := range map[string]struct{ args, want []string }{
		"one without a hyphen stays where it is": {
			[]string{"events", "show", plain, "--json"}, []string{"events", "show", plain, "--json"},
		},
		"one with a hyphen goes behind the flags": {
			[]string{"events", "show", hyphen, "--json"}, []string{"events", "show", "--json", "--", hyphen},
		},
		"two keep their order": {
			[]string{"messages", "retry", hyphen, plain, "--reason", "why"}, []string{"messages", "retry", "--reason", "why", "--", hyphen, plain},
		},
		"an id of a producer's stays before the message": {
			[]string{"messages", "retry", "o-2", hyphen, "--yes"}, []string{"messages", "retry", "o-2", "--yes", "--", hyphen},
		},
		"that of a flag stays with it": {
			[]string{"events", "tail", "--key", hyphen}, []string{"events", "tail", "--key", hyphen},
		},
		"who separates them knows": {
			[]string{"events", "show", "--", hyphen}, []string{"events", "show", "--", hyphen},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, keysLast(c.args)) })
	}
}
