// Package email sends messages by SMTP, each as one mail to one mailbox over a
// connection of its own.
//
// # What to believe
//
//   - A mail is taken by the server when it answers 2xx to the end of the body.
//     Until the last byte of the body is out the result of a fault is transient,
//     after it, and before an answer, it is unknown.
//   - A reply of 4xx is transient. So is one that limits the rate (4.7.x and the
//     like): SMTP names no time to come back at, and without one a rate limit
//     would burn nothing for ever.
//   - A reply of 5xx to the mail itself is permanent. A refusal of the session
//     (the greeting, STARTTLS, the login, or a demand for one) is transient
//     whatever its code: it is about the configuration and not about the mail, and
//     is to end as a dead letter that an operator sees, not as lost mail.
//   - The Message-ID is the message id at the domain of the sender's address, the
//     same in every try. Mail servers do not drop repeats by it, which is why a
//     mail of unknown fate is better held than sent again.
//   - STARTTLS is demanded unless the configuration says otherwise, and
//     certificates are verified. A password never goes over a connection in the
//     clear, save to this machine.
//   - A message with a line break or a NUL in an address or a header is refused
//     unsent, as is one that sets a header that the mail has by itself.
//
// Codes are "smtp_" with the reply and, where there is one, the enhanced status
// code: "smtp_550_5.1.1".
package email
