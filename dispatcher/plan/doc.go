// Package plan decides which messages an event becomes: envelope, routes and
// templates in, rendered and addressed messages out, or why there are none.
//
// # What to believe
//
//   - [Compile] does everything that can fail about the configuration and reports
//     every problem at once. After it nothing is read, no clock is asked, and
//     nothing outside the arguments matters: the same event gives the same plan,
//     on every machine, as long as [Planner.Revision] is the same.
//   - A message's id depends on the event, the route, the channel and the
//     normalised address alone, so that templates and expressions can change
//     while an event waits for its next round.
//   - What the producer left out is nobody to tell: a member that is absent or null
//     yields nothing, however deep the path that names it, and a route whose
//     recipients are nothing tells nobody. A value of the wrong type is another
//     matter: it is an [Error], so that an operator sees it.
//   - Evaluation is bounded: expressions by the elements they walk over, templates
//     by their output and their steps, a plan by its messages.
//   - Neither a decision's detail nor an error's holds an address or a value of the
//     payload. They name the route, the key and the place in it.
//
// # Expressions
//
// when, recipients, locale and timezone of a route are expressions of expr-lang over
//
//	id, source, type, tenant, subject, correlation_id  texts, empty where not given
//	occurred_at                                        a time, zero where not given; in templates an empty text then
//	data                                               the payload, see below
//	extensions                                         texts by CloudEvents extension
//	vars                                               texts from the configuration
//	groups                                             lists of recipients from the configuration
//
// data is the decoded payload where that is JSON, and its text otherwise. JSON
// that is not declared as such counts if it is an object or a list. Data that is
// not UTF-8 is nil. Whole numbers are ints as far as they fit, others floats.
// Functions that ask a clock, read files or grow without measure (now, date,
// timezone, repeat, uniq) are left out.
//
// # Templates
//
// A template is a folder: subject.txt, text.txt and html.html, or message.md, for e-mail, one
// file body.json (or .txt, .xml, .html) for what takes a single body. A name
// with a locale, such as subject.de.txt, is used for recipients who want that
// language; every locale has all the files. Templates see what expressions see,
// and besides .locale, .timezone and .recipient, the address and whatever else the
// recipient's object has. A member that is absent is an error, unless asked for
// with get. Besides what is built into text/template there are
//
//	get .data "customer.name"       the member at a path, or an empty text
//	VALUE | default "customer"      what stands in for an empty value
//	date "2 Jan 2006" .occurred_at  a time, or a text that is one, by a layout of Go
//	number .data.total 2            a number with decimals, as the file's language writes it
//	local .timezone .data.at        a time as the clocks of a zone show it, and the zone
//	in .timezone .data.at           a time in a zone, for date
//	money .data.total "EUR"         an amount in a currency, as the file's language writes it
//	json .data                      JSON, which is how values get into body.json
//	join ", " .data.tags            a list as one text
//	upper VALUE, lower VALUE
//
// Comparisons take numbers as numbers, whether a producer writes 5 or 5.0.
package plan
