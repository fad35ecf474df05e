package plan

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/currency"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/number"
)

// money writes an amount, or a text that is one, in a currency by its ISO 4217 code, as
// people who speak the file's language do: with the digits that the currency has, and
// its symbol where they have it.
func money(tag language.Tag, amount any, code string) (string, error) {
	unit, err := currency.ParseISO(code)
	if err != nil {
		return "", wrong("money: want a currency such as EUR")
	}
	digits, _ := currency.Standard.Rounding(unit)
	value, ok := amountOf(amount)
	if !ok {
		return "", wrong("money: want a number")
	}
	sign := ""
	if value < 0 {
		sign, value = "-", -value
	}
	p := message.NewPrinter(tag)
	symbol := p.Sprint(currency.Symbol(unit))
	text := p.Sprint(number.Decimal(value, number.Scale(digits)))
	if symbolAfter(tag) {
		return sign + text + "\u00a0" + symbol, nil
	}
	if last, _ := utf8.DecodeLastRuneInString(symbol); unicode.IsLetter(last) || symbolApart(tag) {
		symbol += "\u00a0"
	}
	return sign + symbol + text, nil
}

// after are the languages that write the symbol behind the amount, by the standard
// currency pattern of the Unicode CLDR (cldr.unicode.org); apart are those that write it
// before, and apart.
const (
	after = "az be bg bs ca cs da de el es et eu fi fr gl hr hu hy is it ka kk ky lt lv mk no nb nn pl ro ru sk sl sq sr sv uk uz vi"
	apart = "nl pt"
)

func symbolAfter(tag language.Tag) bool {
	base, _ := tag.Base()
	region, _ := tag.Region()
	switch region.String() {
	case "AT", "CH", "LI":
		return base.String() == "fr" || base.String() == "it" && region.String() != "CH"
	case "MX", "US", "AR", "CO", "CL", "PE": // Spanish in the Americas
		return base.String() != "es" && slices.Contains(strings.Fields(after), base.String())
	case "PT":
		return true
	}
	return slices.Contains(strings.Fields(after), base.String())
}

func symbolApart(tag language.Tag) bool {
	base, _ := tag.Base()
	region, _ := tag.Region()
	return slices.Contains(strings.Fields(apart), base.String()) || slices.Contains([]string{"AT", "CH", "LI"}, region.String())
}
