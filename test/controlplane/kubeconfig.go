package controlplane

import (
	"context"
	"crypto/rand"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// AdminUser is the name under which AdminKubeconfig and AdminConfig are known, also
// in the audit log. The components have names of their own.
const AdminUser = "holdfast-admin"

// tokenLifetime covers the longest test and a working day in the sandbox.
const tokenLifetime = 24 * 60 * 60

// components maps the users of the token file to the names of their kubeconfigs.
// All are of system:masters: what is under test is not the rights of these.
func components() map[string]string {
	return map[string]string{
		AdminUser:                        "",
		"system:kube-controller-manager": controllerManager,
		"system:kube-scheduler":          scheduler,
		"holdfast-podrunner":             podRunner,
		"holdfast-kwok":                  kwok,
	}
}

// AdminKubeconfig is the path of a kubeconfig (mode 0600) of a cluster admin, with
// a token and the CA's certificate in it.
func (cp *ControlPlane) AdminKubeconfig() string { return cp.kubeconfigPath("") }

// AdminConfig is the same as a client configuration, without client-side limits.
func (cp *ControlPlane) AdminConfig() *rest.Config { return rest.CopyConfig(cp.admin) }

// Client is a typed client of AdminConfig.
func (cp *ControlPlane) Client() kubernetes.Interface { return cp.client }

// CA is the PEM of the certificate authority of all servers.
func (cp *ControlPlane) CA() []byte { return cp.ca.pem }

// KubeconfigFor makes a kubeconfig with a fresh token of a ServiceAccount, which must
// exist, and returns its path.
func (cp *ControlPlane) KubeconfigFor(ctx context.Context, namespace, serviceAccount string) (string, error) {
	seconds := int64(tokenLifetime)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := cp.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", namespace, serviceAccount, err)
	}
	user := &clientcmdapi.AuthInfo{Token: answer.Status.Token}
	return cp.newKubeconfig("sa-"+serviceAccount, namespace, user)
}

// UserKubeconfig makes a kubeconfig with a client certificate of a user, who needs no
// registration and has no rights but those that RBAC gives.
func (cp *ControlPlane) UserKubeconfig(user string, groups ...string) (string, error) {
	crt, key, err := cp.ca.user(user, groups...)
	if err != nil {
		return "", err
	}
	return cp.newKubeconfig("user-"+user, "", &clientcmdapi.AuthInfo{ClientCertificateData: crt, ClientKeyData: key})
}

// newKubeconfig never writes a path twice: somebody may hold the earlier one.
func (cp *ControlPlane) newKubeconfig(name, namespace string, user *clientcmdapi.AuthInfo) (string, error) {
	file, err := os.CreateTemp(cp.dir, "kubeconfig."+strings.NewReplacer(":", "-", "/", "-").Replace(name)+"-")
	if err != nil {
		return "", fmt.Errorf("making a kubeconfig for %s: %w", name, err)
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("making a kubeconfig for %s: %w", name, err)
	}
	return file.Name(), cp.writeKubeconfig(file.Name(), namespace, user)
}

func (cp *ControlPlane) writeKubeconfig(path, namespace string, user *clientcmdapi.AuthInfo) error {
	const name = "holdfast"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: cp.server, CertificateAuthorityData: cp.ca.pem}
	config.AuthInfos[name] = user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the kubeconfig %s: %w", path, err)
	}
	return nil
}

func (cp *ControlPlane) kubeconfigPath(component string) string {
	if component == "" {
		return cp.path("kubeconfig")
	}
	return cp.path("kubeconfig." + component)
}

// writeCredentials writes the token file and the kubeconfigs of admin and
// components, and makes the client of this process.
func (cp *ControlPlane) writeCredentials() error {
	var rows strings.Builder
	table := csv.NewWriter(&rows)
	for user, name := range components() {
		token := randomToken()
		if err := table.Write([]string{token, user, user, "system:masters"}); err != nil {
			return fmt.Errorf("composing the token file: %w", err)
		}
		if err := cp.writeKubeconfig(cp.kubeconfigPath(name), "", &clientcmdapi.AuthInfo{Token: token}); err != nil {
			return err
		}
	}
	table.Flush()
	if err := errors.Join(table.Error(), os.WriteFile(cp.path("tokens.csv"), []byte(rows.String()), 0o600)); err != nil {
		return fmt.Errorf("writing the token file: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", cp.AdminKubeconfig())
	if err != nil {
		return fmt.Errorf("reading the admin kubeconfig: %w", err)
	}
	config.QPS, config.UserAgent = -1, "controlplane"
	cp.admin = config
	if cp.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making the admin client: %w", err)
	}
	return nil
}

func randomToken() string {
	token := make([]byte, 24)
	_, _ = rand.Read(token) // it never fails: the Go runtime ends the program first
	return hex.EncodeToString(token)
}
