module posenc.invalid/vectors

go 1.19
