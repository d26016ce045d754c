// Package near finds the known word that is nearest to a misspelled one. Start at
// [Word].
package near

import "strings"

// maxWord bounds the words that are compared, and with them the work.
const maxWord = 64

// Word gives the candidate that comes nearest to word by Damerau-Levenshtein
// distance, ignoring case, if it is near enough to be worth a suggestion; else
// "".
func Word(word string, candidates []string) string {
	best, bestAt := "", (len(word)+2)/3+1
	if len(word) > maxWord {
		return ""
	}
	for _, c := range candidates {
		if len(c) > maxWord {
			continue
		}
		if d := Distance(strings.ToLower(word), strings.ToLower(c)); d < bestAt && d < len(c) {
			best, bestAt = c, d
		}
	}
	return best
}

// Distance counts the insertions, deletions, replacements and swaps of
// neighbours that make a into b (the optimal string alignment variant).
func Distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
