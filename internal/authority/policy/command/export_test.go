package command

// Known reports whether what a program starts is looked at.
func Known(name string) bool { p := programs()[name]; return p != nil && !p.harmless }
