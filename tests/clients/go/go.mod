module tollgate-client-tests

go 1.24
