package erasures

// Cutoff is cutoff.
var Cutoff = cutoff
