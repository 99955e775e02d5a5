module example.com/posenc/vectors

go 1.19
