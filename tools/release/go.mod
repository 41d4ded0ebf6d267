module github.com/holdfast-project/holdfast/tools/release

go 1.26.0

require (
	github.com/google/go-containerregistry v0.22.1
	helm.sh/helm/v4 v4.3.2
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
