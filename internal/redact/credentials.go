package redact

import "regexp"

// What looks like a credential without the redactor having been told of it. A
// group named "secret" is what is removed, so that the words around it still
// explain what happened; without one it is the whole find.
var (
	// privateKey is found also where its newlines are escaped or its end is cut
	// off.
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`)
	// bearer asks for a long token: "bearer authentication" is no credential.
	bearer    = regexp.MustCompile(`(?i)\bbearer[ :=]+(?P<secret>[a-z0-9._~+/=-]{16,})`)
	basicAuth = regexp.MustCompile(`(?i)\bauthorization["']?\s*[:=]\s*["'\[]*basic\s+(?P<secret>[a-z0-9+/=_-]+)`)
	urlUser   = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]{1,30}://(?P<secret>[^\s/@"'<>]+)@`)
	// webToken is a JSON Web Token, such as a service account's.
	webToken = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`)
	// field is one of a kubeconfig or of an exec plugin's answer. "token:" alone
	// is not one: it begins too many sentences that say what went wrong.
	field = regexp.MustCompile(`(?i)(?:\b(?:client-?key-?data|(?:id-|refresh-|access_)token|password)\\?["']?\s*[:=]|\btoken(?:\\?["']\s*[:=]|=))\s*\\?["']?(?P<secret>[^\s"',}\\]{4,})`)
)

// credentials returns the spans of text that look like credentials.
func credentials(text []byte) (found []span) {
	for _, pattern := range []*regexp.Regexp{privateKey, bearer, basicAuth, urlUser, webToken, field} {
		group := max(pattern.SubexpIndex("secret"), 0)
		for _, at := range pattern.FindAllSubmatchIndex(text, -1) {
			found = append(found, span{from: at[2*group], to: at[2*group+1]})
		}
	}
	return found
}
