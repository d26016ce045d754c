package tool

import "context"

// Progress is the progress of a call, in units of its tool's choice.
type Progress struct {
	Done    float64
	Total   float64 // 0: not known
	Message string  // for people; it comes from the tool and may be untrusted
}

type progressKey struct{}

// WithProgress returns a context by which a tool can report progress to its caller.
// No decision depends on it. tell may be called from several goroutines.
func WithProgress(ctx context.Context, tell func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, tell)
}

// WantsProgress reports whether progress is reported to a caller.
func WantsProgress(ctx context.Context) bool {
	_, ok := ctx.Value(progressKey{}).(func(Progress))
	return ok
}

// TellProgress reports progress to the caller, if it wants to know.
func TellProgress(ctx context.Context, p Progress) {
	if tell, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		tell(p)
	}
}
