// Package identity holds the values that name a thing exactly: an object in a
// cluster, a slot of an attempt, a directory on a disk, a cluster, and the
// executable that wrote the evidence.
//
// Its invariant: a value of this package is either compared whole or refused.
// Nothing here guesses, shortens or normalises, because every deletion that
// Holdfast sends rests on two of these values being equal.
//
// It must not import net, any k8s.io module or any other package of this
// repository: everything else may import it, the pure decision packages too.
package identity

import (
	"fmt"
	"regexp"
)

// Slot names one temporary object of a preflight attempt, for example "api" or
// "secret". The five names of the specification are constants; a profile may
// bring others that satisfy ValidSlot.
type Slot string

// The slots of the built-in profile, in the order in which they are created.
const (
	SlotSecret        Slot = "secret"
	SlotNetworkPolicy Slot = "network-policy"
	SlotMigration     Slot = "migration"
	SlotAPI           Slot = "api"
	SlotWorker        Slot = "worker"
)

// slotPattern bounds a slot to what is safe inside a file name and an object
// name: lower-case letters, digits and single dashes, at most 20 bytes. The
// separator "-" must not end it, or "preflight-<slot>-started.json" could be
// read in two ways.
var slotPattern = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// ValidSlot reports whether s can be a slot's name.
func ValidSlot(s Slot) bool {
	return len(s) <= 20 && slotPattern.MatchString(string(s))
}

// SlotRef names a slot of one attempt. It is what results and messages show as
// "attempt/slot".
type SlotRef struct {
	Attempt string `json:"attempt"`
	Slot    Slot   `json:"slot"`
}

// String returns "attempt/slot", the form that reconcile's --slot takes.
func (r SlotRef) String() string { return r.Attempt + "/" + string(r.Slot) }

// Object names one object in a cluster. Without a UID it is only a place, and
// a place never authorises a deletion.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// String returns "Kind namespace/name (uid …)", as messages show it.
func (o Object) String() string {
	if o.UID == "" {
		return fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
	}
	return fmt.Sprintf("%s %s/%s (uid %s)", o.Kind, o.Namespace, o.Name, o.UID)
}

// Place returns the object without its UID.
func (o Object) Place() Object {
	o.UID = ""
	return o
}

// Consumer reports whether the object uses the others: Jobs do, and they must
// be gone before what they use is removed.
func (o Object) Consumer() bool { return o.Kind == "Job" }

// uidPattern is the form in which the API server writes a UID (RFC 4122, lower
// case). Anything else in a receipt is damage, and anything else in a printed
// command could be an injection.
var uidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ValidUID reports whether s is a UID as the API server assigns it.
func ValidUID(s string) bool { return uidPattern.MatchString(s) }

// Cluster tells one cluster, and one life of a namespace, from another.
type Cluster struct {
	// NamespaceUID is the UID of the target Namespace; it is always known,
	// since a run that cannot read its Namespace refuses (A3.9).
	NamespaceUID string `json:"namespaceUID"`
	// KubeSystemUID is the UID of the kube-system Namespace, empty where the
	// run was not allowed to read it.
	KubeSystemUID string `json:"kubeSystemUID,omitempty"`
}

// Directory is the physical identity of an evidence or attempt directory. The
// device number is not part of it: it can change over a reboot.
type Directory struct {
	// Path is the absolute path without links.
	Path string `json:"path"`
	// Inode is the directory's inode number.
	Inode uint64 `json:"inode"`
	// BirthTime is when the inode was made, in nanoseconds since the epoch as
	// statx gives it; zero where the file system does not keep it.
	BirthTime int64 `json:"birthTime,omitempty"`
}

// Helper is the identity of the executable that wrote the evidence. Only the
// same one may resume or clean up (A3.6).
type Helper struct {
	// SHA256 is the lower-case hex digest of the executable's bytes.
	SHA256 string `json:"sha256"`
	// ModuleVersion, Revision and Modified are what the build stamped, for
	// people; the digest decides.
	ModuleVersion string `json:"moduleVersion"`
	Revision      string `json:"revision"`
	Modified      bool   `json:"modified"`
	// Assets maps each embedded file that shapes a manifest to its SHA-256.
	Assets map[string]string `json:"assets"`
}

// Equal reports whether both name the same executable. The digest of the bytes
// covers the rest; it is compared too, so that an edited record is noticed.
func (h Helper) Equal(other Helper) bool {
	if h.SHA256 != other.SHA256 || h.ModuleVersion != other.ModuleVersion ||
		h.Revision != other.Revision || h.Modified != other.Modified || len(h.Assets) != len(other.Assets) {
		return false
	}
	for name, sum := range h.Assets {
		if other.Assets[name] != sum {
			return false
		}
	}
	return true
}
