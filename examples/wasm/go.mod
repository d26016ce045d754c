module text

go 1.26
