package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"

	"k8s.io/client-go/tools/clientcmd"
)

// lineOfParser is the one thing that is kept of what a parser says.
var lineOfParser = regexp.MustCompile(`\bline \d+`)

// UnquotedKubeconfig returns what may be told of an error that reading a kubeconfig
// gave. A decoder quotes what it cannot decode, and that can be a password: of two
// users of one name client-go prints both, with their tokens. So of a decoder's error
// only the line number is kept. That a file is missing, empty, or names what is not in
// it is told as it is.
func UnquotedKubeconfig(err error) error {
	switch {
	case err == nil, errors.As(err, new(*fs.PathError)), clientcmd.IsEmptyConfig(err),
		clientcmd.IsContextNotFound(err), clientcmd.IsConfigurationInvalid(err):
		return err
	}
	where := ""
	if line := lineOfParser.FindString(err.Error()); line != "" {
		where = ", at " + line
	}
	return fmt.Errorf("it cannot be decoded%s; what it holds is not shown, kubectl config view tells more", where)
}
