{{- define "remit.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "remit.selector" -}}
app.kubernetes.io/name: remit
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "remit.labels" -}}
{{ include "remit.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "remit.image" -}}
{{- $repository := required "image.repository is required: where you pushed Remit's image" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" $repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" $repository (required "image.tag or image.digest is required" .Values.image.tag) }}
{{- end -}}
{{- end }}

{{- define "remit.homeClaim" -}}
{{- .Values.home.existingClaim | default (printf "%s-home" (include "remit.name" .)) -}}
{{- end }}

{{- define "remit.env" -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: REMIT_DB
  valueFrom:
    secretKeyRef:
      name: {{ required "database.secret is required: a secret with the URL of the database" .Values.database.secret | quote }}
      key: {{ .Values.database.key | quote }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "remit.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- if .Values.sandbox.enabled }}
procMount: Unmasked
seccompProfile: {{ toJson .Values.sandbox.seccompProfile }}
appArmorProfile: {{ toJson .Values.sandbox.appArmorProfile }}
{{- else }}
seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- end }}

{{- define "remit.mounts" -}}
- {name: home, mountPath: /home/remit}
- {name: workspace, mountPath: /work}
- {name: tmp, mountPath: /tmp}
- {name: policies, mountPath: /etc/remit, readOnly: true}
{{- if .Values.tls.secret }}
- {name: tls, mountPath: /etc/remit-tls, readOnly: true}
{{- end }}
{{- end }}
