package secrets

// Forms are the spellings under which a value is looked for.
func Forms(value string) []string { return forms(value) }
