package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/holdfast-project/holdfast/internal/durable"
	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/strictjson"
)

// manual are the words that every evidence without a usable journal gets.
const manual = "this evidence needs manual reconciliation"

// A5.7: the directory itself is private and ours.
func (l *loading) rootIsPrivate() (err error) {
	if l.rootInfo, err = durable.CheckPrivateDirectory(l.root); err != nil {
		return refuseFile(".", err)
	}
	return nil
}

// A5.8: the registry exists and has the one format that this version knows. The
// format is looked at first and leniently, since another format has other
// fields, and "unknown field" would be the wrong sentence for it.
func (l *loading) journalIsOfThisVersion() error {
	data, _, err := durable.ReadPrivate(l.root, JournalFile, maxJournalBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return l.withoutJournal()
	}
	if err != nil {
		return refuseFile(JournalFile, err)
	}
	var written struct {
		Format *string `json:"format"`
	}
	if json.Unmarshal(data, &written) == nil && (written.Format == nil || *written.Format != Format) {
		found := "no format"
		if written.Format != nil {
			found = fmt.Sprintf("format %q", *written.Format)
		}
		return refuse(JournalFile, "has %s, not %q: %s", found, Format, manual)
	}
	if err := strictjson.Decode(data, maxJournalBytes, &l.journal); err != nil {
		return refuseBecause(JournalFile, err)
	}
	// Everything else that it must hold is compared with what is found: sums,
	// directories and the helper.
	if l.journal.Attempts == nil {
		return refuse(JournalFile, "has no list of attempts")
	}
	return nil
}

// withoutJournal tells evidence that lost its journal from a run that never
// came to write one.
func (l *loading) withoutJournal() error {
	record, err := findCreateRecord(l.root, 0)
	if err != nil {
		return refuse(JournalFile, "does not exist, and the directory cannot be searched (%v): %s", err, manual)
	}
	if record != "" {
		return refuse(JournalFile, "does not exist, but %s does: %s", relativePath(l.root.Path(), path.Dir(record), path.Base(record)), manual)
	}
	// The parameters are the first file of a run. Without them this may as well be a
	// directory that was mistyped, and the evidence lie elsewhere.
	if _, err := l.root.Lstat(ParametersFile); errors.Is(err, fs.ErrNotExist) {
		return refuse(JournalFile, "does not exist, nor does %s or any create record: either %s is not the directory of a run, or the run was killed before anything could be created", ParametersFile, l.root.Path())
	}
	return refuse(JournalFile, "does not exist, nor does any create record: the run was killed before anything could be created")
}

// A5.2: the directory is the one in which the run wrote, not one moved, copied
// or restored.
func (l *loading) directoryIsTheOriginal() error {
	return sameDirectory(".", l.journal.Directory, l.root.Path(), l.rootInfo)
}

func sameDirectory(file string, recorded identity.Directory, path string, info durable.Info) error {
	switch {
	case recorded.Path != path:
		return refuse(file, "is at %s, but was recorded at %s: it was moved or copied", path, recorded.Path)
	case recorded.Inode != info.Inode || recorded.BirthTime != info.BirthTime:
		return refuse(file, "is not the original directory: its inode or birth time differs from the record, as after a copy or a restore")
	}
	return nil
}

// A3.1, A3.2: the parameters are those that the registry was begun with.
func (l *loading) parametersAreTheRegistered() (err error) {
	p := &l.parameters
	if l.parametersSHA256, err = l.read(l.root, ParametersFile, maxParametersBytes, p); err != nil {
		return err
	}
	if l.parametersSHA256 != l.journal.ParametersSHA256 {
		return refuse(ParametersFile, "has not the SHA-256 that %s records: it was changed", JournalFile)
	}
	if err := RequireParameters(p); err != nil {
		return err
	}
	if !p.Helper.Equal(l.journal.Helper) {
		return refuse(ParametersFile, "and %s record different helpers", JournalFile)
	}
	return nil
}

// RequireParameters refuses parameters that lack a required value (A1.5).
func RequireParameters(p *Parameters) error {
	for _, required := range []struct {
		name string
		ok   bool
	}{
		{"version", p.Version == Version},
		{"kubeconfig", path.IsAbs(p.Kubeconfig)},
		{"kubeconfigSHA256", validSum(p.KubeconfigSHA256)},
		{"context", p.Context != ""},
		{"namespace", p.Namespace != ""},
		{"release", p.Release != ""},
		{"profile", p.Profile.Name != "" && validSum(p.Profile.SHA256)},
		{"chart", p.Chart.Name != "" && validSum(p.Chart.SHA256)},
		{"values", p.Values.valid()},
		{"images", validImages(p.Images)},
		{"timeoutSeconds", p.TimeoutSeconds > 0},
		{"fileSystem", p.FileSystem.Type != ""},
		{"cluster", validCluster(p.Cluster)},
		{"createdAt", ValidTime(p.CreatedAt)},
	} {
		if !required.ok {
			return refuse(ParametersFile, "has no valid %s", required.name)
		}
	}
	if !validSum(p.Helper.SHA256) {
		return refuse(ParametersFile, "has no identity of the helper")
	}
	return nil
}

func validImages(images []Image) bool {
	for _, image := range images {
		if image.Role == "" || image.Reference == "" {
			return false
		}
	}
	return len(images) > 0
}

func validCluster(c identity.Cluster) bool {
	return identity.ValidUID(c.NamespaceUID) && (c.KubeSystemUID == "" || identity.ValidUID(c.KubeSystemUID))
}

// ValidTime accepts the one spelling that this program writes: UTC, RFC 3339,
// with fractions where there are any. The API server's times have it too.
func ValidTime(s string) bool {
	t, err := time.Parse(time.RFC3339Nano, s)
	return err == nil && FormatTime(t) == s
}

// FormatTime is how records spell a time.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// A1.2: the file system is one that the run may use, and the one it used.
func (l *loading) fileSystemIsAcceptable() error {
	now, err := l.root.FileSystem()
	if err != nil {
		return refuseFile(".", err)
	}
	recorded := l.parameters.FileSystem
	if now != recorded.Type {
		return refuse(".", "lies on %s, but was recorded on %s: it is not the original directory", now, recorded.Type)
	}
	allowed := ""
	if recorded.Allowed {
		allowed = recorded.Type
	}
	warning, err := durable.Acceptable(now, allowed)
	if err != nil {
		return refuseBecause(".", err)
	}
	if warning != "" {
		l.warnings = append(l.warnings, warning)
	}
	return nil
}

// A5.3: target, credentials' file and helper are those of the record.
func (l *loading) targetIsTheRecorded(expect Expectation) error {
	p := l.parameters
	for _, value := range []struct{ name, recorded, given string }{
		{"kubeconfig", p.Kubeconfig, expect.KubeconfigPath},
		{"context", p.Context, expect.Context},
		{"namespace", p.Namespace, expect.Namespace},
		{"release", p.Release, expect.Release},
	} {
		if value.recorded != value.given {
			return refuse(ParametersFile, "records the %s %q, not %q", value.name, value.recorded, value.given)
		}
	}
	if p.KubeconfigSHA256 != expect.KubeconfigSHA256 {
		return refuse(ParametersFile, "records other contents of %s: the kubeconfig was changed after the run", p.Kubeconfig)
	}
	if !p.Helper.Equal(expect.Helper) {
		return refuse(ParametersFile, "was written by another helper (SHA-256 %s): %s", p.Helper.SHA256, l.whereTheHelperIs())
	}
	return nil
}

func (l *loading) whereTheHelperIs() string {
	if l.parameters.HelperRetained {
		return "use the retained copy " + path.Join(l.root.Path(), HelperDirectory, HelperFile)
	}
	return "use the executable that made this run, since no copy was retained"
}

// validSum reports whether s is a SHA-256 in lower-case hex.
func validSum(s string) bool { return len(s) == 64 && isLowerHex(s) }

func isLowerHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
