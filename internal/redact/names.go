package redact

import (
	"slices"
	"strings"
)

var (
	credentialNames = []string{
		"API_KEY", "TOKEN", "PASSWORD", "SECRET",
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_PROFILE",
		"GOOGLE_APPLICATION_CREDENTIALS", "AZURE_FEDERATED_TOKEN_FILE",
	}
	credentialSuffixes = []string{
		"_API_KEY", "_APIKEY", "_TOKEN", "_PASSWORD", "_SECRET", "_SECRET_KEY", "_PRIVATE_KEY", "_ACCESS_KEY",
		"_CREDENTIALS", "_CREDENTIAL", "_PAT",
	}
	// notSecret are names whose value only says where a credential is.
	notSecret = []string{"AWS_PROFILE", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_FEDERATED_TOKEN_FILE"}
)

// CredentialName reports whether an environment variable of this name is taken
// to hold a credential or to lead to one, whatever its case.
func CredentialName(name string) bool {
	name = strings.ToUpper(name)
	return slices.Contains(credentialNames, name) ||
		slices.ContainsFunc(credentialSuffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// FromEnviron picks from "NAME=value" lines the values of credentials. Values
// below 8 bytes are left: they would redact ordinary words.
func FromEnviron(environ []string) []string {
	var out []string
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if len(value) >= 8 && CredentialName(name) && !slices.Contains(notSecret, strings.ToUpper(name)) {
			out = append(out, value)
		}
	}
	return out
}
