package secrets

// Ref names a secret. It stands for the value in a program's source, and is
// nothing secret itself.
type Ref string
