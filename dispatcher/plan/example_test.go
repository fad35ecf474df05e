package plan_test

import (
	"fmt"
	"testing/fstest"

	"tidings/dispatcher/plan"
	"tidings/streams/event"
)

func ExamplePlanner_Plan() {
	rules := plan.Rules{Routes: []plan.Route{{
		Name: "order-confirmation", Event: "order.placed", Channel: "mail", Template: "thanks",
		When: "data.total > 0", Recipients: "data.customer.email",
	}}}
	templates := fstest.MapFS{
		"thanks/subject.txt": {Data: []byte("Your order {{.data.order}}")},
		"thanks/text.txt":    {Data: []byte("Thank you! {{number .data.total 2}} EUR")},
	}
	p, err := plan.Compile(rules, templates, plan.Options{
		Secret:   []byte("keys the hashes of addresses"),
		Channels: map[string]plan.Channel{"mail": {Kind: plan.Email}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, data := range []string{
		`{"order": 7, "total": 19.9, "customer": {"email": "ann@example.com"}}`,
		`{"order": 8, "total": 19.9}`,
	} {
		e := event.Envelope{Tenant: "default", Source: "shop", ID: "1", Type: "order.placed", Data: []byte(data)}
		got, err := p.Plan(event.Identity{}.Key(e), e)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, m := range got.Messages {
			fmt.Printf("%s: %s | %s\n", m.Address, m.Content.Subject, m.Content.Text)
		}
		fmt.Printf("%s %q\n", got.Fact.Routes[0].Verdict, got.Fact.Routes[0].Detail)
	}
	// Output:
	// ann@example.com: Your order 7 | Thank you! 19.90 EUR
	// planned ""
	// no_recipient "recipients (data.customer.email) gave nothing"
}
