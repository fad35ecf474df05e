package why

import "tidings/streams/event"

// words returns the sentence for a name, or the name itself where this version
// has none.
func words(sentences map[string]string, name string) string {
	if s, ok := sentences[name]; ok {
		return s
	}
	return or(name, "no reason is given")
}

func idInWords(source event.IDSource) string {
	switch source {
	case event.IDCloudEvents:
		return "its id is the CloudEvents id"
	case event.IDMessageID:
		return "its id is the AMQP message-id"
	case event.IDHeader:
		return "its id came in a header"
	case event.IDOperator:
		return "its id was given by an operator, who sent a dead letter again"
	case event.IDDerived:
		return "it came without an id: the id was derived from tenant, source, type, timestamp and body"
	case event.IDContent:
		return "it came without id and timestamp: the same content counts as the same event inside the duplicate window only"
	}
	return "its id came from " + string(source)
}

func part(stage event.Stage) string {
	if stage == event.StageHTTP {
		return "the HTTP API"
	}
	return "the " + string(stage)
}

func crashReasons() map[string]string {
	return map[string]string{
		"owner_gone":    "the process that held it is gone",
		"lease_expired": "its lease ran out: the process was stopped, or lost the log",
		"panic":         "handling the event panicked",
	}
}

func gaveUpReasons() map[string]string {
	return map[string]string{
		"permanent":          "the provider refused for good",
		"rounds_exhausted":   "the last round is over",
		"deferral_exhausted": "rate limits put it off for too long, or its channel had no room for it until it was too old",
		"held":               "it may have been sent, and its channel leaves such messages to an operator",
		"not_in_plan":        "the configuration in force does not produce it any more",
		"no_channel":         "its channel is not configured any more",
	}
}

func waitReasons() map[string]string {
	return map[string]string{
		string(event.WaitRetry):       "open messages are tried again",
		string(event.WaitRateLimited): "a provider asked for it; this burns no round",
		string(event.WaitInterrupted): "the process was stopped; this burns no round",
	}
}

// CauseInWords returns a sentence for the cause of a dead letter: what happened
// and, where it is not plain, what to do.
func CauseInWords(c event.Cause) string {
	return words(map[string]string{
		string(event.CauseCrashes):           "claims ended without results too often, so the event may be what stops the process: look why it stopped, and requeue it",
		string(event.CauseMaxDeliver):        "it was delivered as often as it may be, without an end: look why, and requeue it",
		string(event.CauseUncertain):         "a message may or may not have been sent: look at the provider, and if it was not sent, requeue it",
		string(event.CauseRoundsExhausted):   "a message still failed after its last round: mend the receiver, and requeue it",
		string(event.CausePermanent):         "a provider refused for good",
		string(event.CauseTemplateError):     "a template or an expression of a route could not be evaluated: mend it, restart, and requeue it",
		string(event.CauseContractViolated):  "its payload is not as the contract for its type says: have the producer mend it, edit it here, or mend the contract",
		string(event.CauseTooManyRecipients): "it has more messages than one event may have",
		string(event.CauseEventMissing):      "the stored copy of the event is gone",
		string(event.CausePanic):             "handling the event panicked",
		string(event.CauseIDConflict):        "its identity was used before for another body: the producer must give it an id of its own",
		string(event.CauseUndecodable):       "it is neither a CloudEvent nor a plain event",
		string(event.CauseMissingID):         "it has no id, and such deliveries are refused",
		string(event.CauseFuture):            "it claims to occur too far ahead: the producer's clock is wrong",
		string(event.CauseOversize):          "it is larger than a stored event may be",
		string(event.CauseHeadersTooLarge):   "its headers do not fit",
		string(event.CauseReservedSource):    "it claims the source of tests, which only tidings events test may use: the producer must name another",
	}, string(c))
}
