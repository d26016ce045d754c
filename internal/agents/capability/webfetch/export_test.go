package webfetch

import "context"

// Markdown converts a page that is at no address.
func Markdown(ctx context.Context, page string) (string, error) { return markdown(ctx, page, "") }

// Plain is the text of a page.
func Plain(page string) string { return pageText(page) }
